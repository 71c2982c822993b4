"""The crash proof behind `holdfast prove`: kills, simulation and power cuts."""
