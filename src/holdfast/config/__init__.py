"""Configuration: `holdfast.yml`, contracts in their written form, and loading an application for `--app`."""
