"""The paper's experiments, one module and one configuration file each."""
