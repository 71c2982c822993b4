"""What people and programs touch. Thin: they speak to operations and ingress only."""
