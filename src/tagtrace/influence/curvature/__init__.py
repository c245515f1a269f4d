"""Curvature: the Hessian of the training objective and its stand-ins, and solvers for them."""
