"""From what the cluster shows to the likely cause and the remedy: evidence, a catalogue, and the match."""
