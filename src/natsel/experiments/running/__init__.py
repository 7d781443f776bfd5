"""Running: jobs in processes, journals in a folder, resumed where they stopped."""
