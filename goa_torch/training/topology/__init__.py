"""Training of topologies by gradients: estimators, their audit, and a trainer."""
