package jsonschema

// Check reports whether a schema can be used as a definition. The error is a
// *[RefError], which unwraps to code config. Besides what [Canonical] refuses:
//
//   - references that are remote, recursive, dynamic or lead nowhere also where
//     the canonical form does not look (dependencies, tuples), references with
//     percent escapes, and references to an anchor that stands twice;
//   - an "$id" below the root, and a "$schema" other than those of drafts
//     2020-12, 2019-09 and 07;
//   - patterns that cannot be used (see the pattern of this package: the
//     matching is RE2);
//   - keywords with a value they cannot have;
//   - more than [MaxSubschemas] schemas, or more than [MaxExpanded] with the
//     references followed.
//
// What a reference never leads to is not looked at: definitions without use may
// be anything. Check reads nothing but the tree.
func Check(tree any) error {
	_, _, err := check(tree)
	return err
}

// check returns the plan of a schema that may be used.
func check(tree any) (*plan, any, error) {
	if _, err := Hash(tree); err != nil {
		return nil, nil, err
	}
	return newPlan(tree)
}
