"""Curvature: the Hessian of the training objective and its approximations, and solvers for them."""
