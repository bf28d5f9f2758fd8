"""Programs of other systems as functions of ours."""
