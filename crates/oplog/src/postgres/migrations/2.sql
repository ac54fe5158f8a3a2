-- Layout 2: copies of other logs.
--
-- Records copied from a state directory may refer to a blob instead of containing their content.

-- Location of the log of which this one is an incomplete copy. Until it is complete, only another copy can use it.
ALTER TABLE meta ADD COLUMN incomplete_copy text;
