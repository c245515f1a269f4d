"""Looking at labels and fixing them, simulated: noisy labels, orders to look in, a reviewer who knows the truth."""
