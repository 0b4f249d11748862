"""What explains the numbers of a model: the modality gap, mixed candidates, composed queries, languages."""
