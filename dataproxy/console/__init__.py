"""The web console for reviewers and ML engineers: pages rendered here, over the API's own functions and the same store."""
