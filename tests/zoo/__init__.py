"""Models of the packages that people take them from, in sizes that run anywhere: `survey_torch_zoo` goes over them."""
