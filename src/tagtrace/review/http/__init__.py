"""The web server: routes, request and response shapes, security."""
