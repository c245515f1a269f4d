"""The convex problem of a head on frozen features: its objective, exact Hessian products and optimum."""
