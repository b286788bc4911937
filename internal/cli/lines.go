package cli

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lineIndex finds the lines of fields in one YAML or JSON document.
type lineIndex struct{ root *yaml.Node }

// newLineIndex is nil for what is no YAML.
func newLineIndex(data []byte) *lineIndex {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return nil
	}
	return &lineIndex{doc.Content[0]}
}

// line is where a field stands, from 1; for one that is not there, the deepest
// field above it that is.
func (i *lineIndex) line(field string) int {
	node, line := i.root, i.root.Line
	for _, step := range steps(field) {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// steps takes "spec.upstreams[0].name" apart: names, and what is in brackets.
func steps(field string) []string {
	field = strings.NewReplacer("[", ".[", "]", "").Replace(field)
	return strings.FieldsFunc(field, func(c rune) bool { return c == '.' })
}

// child returns a field, or the item of a list by position or name, with its
// line.
func child(node *yaml.Node, step string) (*yaml.Node, int) {
	key, isItem := strings.CutPrefix(step, "[")
	switch {
	case node.Kind == yaml.AliasNode:
		return child(node.Alias, step)
	case node.Kind == yaml.MappingNode && !isItem:
		for j := 0; j+1 < len(node.Content); j += 2 {
			if node.Content[j].Value == key {
				return node.Content[j+1], node.Content[j].Line
			}
		}
	case node.Kind == yaml.SequenceNode && isItem:
		if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < len(node.Content) {
			return node.Content[n], node.Content[n].Line
		}
		for _, item := range node.Content {
			if name, _ := child(item, "name"); item.Kind == yaml.MappingNode && name != nil && name.Value == key {
				return item, item.Line
			}
		}
	}
	return nil, 0
}
