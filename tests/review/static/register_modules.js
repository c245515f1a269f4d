// Lets node take the page's files for modules: no package.json says so beside them, since none is shipped.

import { register } from "node:module";

const HOOK = `
  export const load = (url, context, next) =>
    next(url, url.includes("/src/tagtrace/review/static/") ? { ...context, format: "module" } : context);
`;

register(`data:text/javascript,${encodeURIComponent(HOOK)}`);
