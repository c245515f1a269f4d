// The rules for the page's modules and their tests. Run from the root of the repository, as test_javascript.py does.

import js from "@eslint/js";
import globals from "globals";

const HTML = ["innerHTML", "outerHTML", "insertAdjacentHTML"];

export default [
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  js.configs.recommended,
  {
    rules: {
      "array-callback-return": "error",
      "consistent-return": "error",
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-else-return": "error",
      "no-implicit-coercion": ["error", { allow: ["!!"] }],
      "no-self-compare": "error",
      "no-template-curly-in-string": "error",
      "no-unused-vars": ["error", { args: "all", argsIgnorePattern: "^_" }],
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-useless-return": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
  {
    files: ["src/**/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      "no-alert": "error",
      "no-console": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-restricted-properties": ["error", ...HTML.map((property) => ({ property, message: "Text is set as text." }))],
    },
  },
  { files: ["tests/**/*.js"], languageOptions: { globals: globals.node } },
];
