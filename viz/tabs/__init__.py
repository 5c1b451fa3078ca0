"""The tabs and components of the page: read the inputs, call ``transformer``, call ``viz``, return."""
