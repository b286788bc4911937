package document

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// kind of a JSON value.
type kind uint8

const (
	kindNull kind = iota
	kindFalse
	kindTrue
	kindNumber
	kindText
	kindList
	kindObject
)

// node is one JSON value. The zero value is null.
type node struct {
	kind kind
	// text of a string, decoded, or of a number, as written.
	text string
	// members of a list, without names, or of an object, by name and each name
	// once.
	members []member
}

// member of a list or of an object.
type member struct {
	name string
	node
}

func byName(a, b member) int { return cmp.Compare(a.name, b.name) }

// find looks a member of an object up.
func find(members []member, name string) (int, bool) {
	return slices.BinarySearchFunc(members, name, func(m member, name string) int { return cmp.Compare(m.name, name) })
}

// scanner reads JSON (RFC 8259) into nodes. It tells whether a text is a
// document's JSON and not what is wrong with it: [explain] does. Strings of the
// nodes are parts of the text wherever they can be.
type scanner struct {
	text string
	at   int
	// open holds the members of the lists and objects that are being read.
	open []member
	// spare is where members that were read are put, many at a time.
	spare []member
}

// spareMembers is how many members are allocated at a time, at most. A document
// has about one for every spareShare bytes.
const (
	spareMembers = 512
	spareShare   = 16
)

// scan reads a whole text; false when it is not JSON in UTF-8, is nested too
// deeply, or has an object with the same name twice.
func scan(text string) (node, bool) {
	s := scanner{text: text}
	root, ok := s.value(0)
	s.space()
	return root, ok && s.at == len(text) && utf8.ValidString(text)
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next takes a character, with the space before it.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) value(depth int) (node, bool) {
	s.space()
	if depth > maxDepth || s.at == len(s.text) {
		return node{}, false
	}
	switch c := s.text[s.at]; c {
	case '{':
		return s.object(depth)
	case '[':
		return s.list(depth)
	case '"':
		text, ok := s.quoted()
		return node{kind: kindText, text: text}, ok
	case 'n':
		return s.literal("null", kindNull)
	case 't':
		return s.literal("true", kindTrue)
	case 'f':
		return s.literal("false", kindFalse)
	default:
		return s.number()
	}
}

func (s *scanner) literal(word string, k kind) (node, bool) {
	if !strings.HasPrefix(s.text[s.at:], word) {
		return node{}, false
	}
	s.at += len(word)
	return node{kind: k}, true
}

func (s *scanner) object(depth int) (node, bool) {
	s.at++
	first := len(s.open)
	for !s.next('}') {
		if len(s.open) > first && !s.next(',') {
			return node{}, false
		}
		s.space()
		if s.at == len(s.text) || s.text[s.at] != '"' {
			return node{}, false
		}
		name, ok := s.quoted()
		if !ok || !s.next(':') {
			return node{}, false
		}
		value, ok := s.value(depth + 1)
		if !ok {
			return node{}, false
		}
		s.push(member{name, value})
	}
	members := s.close(first)
	if !slices.IsSortedFunc(members, byName) {
		slices.SortFunc(members, byName)
	}
	for i := 1; i < len(members); i++ {
		if members[i].name == members[i-1].name {
			return node{}, false
		}
	}
	return node{kind: kindObject, members: members}, true
}

func (s *scanner) list(depth int) (node, bool) {
	s.at++
	first := len(s.open)
	for !s.next(']') {
		if len(s.open) > first && !s.next(',') {
			return node{}, false
		}
		value, ok := s.value(depth + 1)
		if !ok {
			return node{}, false
		}
		s.push(member{node: value})
	}
	return node{kind: kindList, members: s.close(first)}, true
}

// push adds an open member. append alone would grow a long list by a quarter at a
// time, which takes several times the memory in the end.
func (s *scanner) push(m member) {
	if len(s.open) == cap(s.open) {
		s.open = slices.Grow(s.open, max(len(s.open), 32))
	}
	s.open = append(s.open, m)
}

// close takes the open members from first on for good.
func (s *scanner) close(first int) []member {
	read := s.open[first:]
	s.open = s.open[:first]
	if len(read) > spareMembers/4 {
		return slices.Clone(read)
	}
	if len(read) > cap(s.spare)-len(s.spare) {
		left := (len(s.text)-s.at)/spareShare + 1
		s.spare = make([]member, 0, max(len(read), min(left, spareMembers)))
	}
	from := len(s.spare)
	s.spare = append(s.spare, read...)
	return s.spare[from:len(s.spare):len(s.spare)]
}

// quoted reads a string.
func (s *scanner) quoted() (string, bool) {
	start := s.at
	for i := start + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			return s.text[start+1 : i], true
		case c == '\\':
			return s.escaped(i)
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// escaped reads a string that has its first escape at i. Documents have few, so
// encoding/json may take its time.
func (s *scanner) escaped(i int) (string, bool) {
	for ; i < len(s.text) && s.text[i] != '"'; i++ {
		if s.text[i] == '\\' {
			i++
		}
	}
	if i >= len(s.text) {
		return "", false
	}
	var text string
	err := json.Unmarshal([]byte(s.text[s.at:i+1]), &text)
	s.at = i + 1
	return text, err == nil
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) number() (node, bool) {
	start := s.at
	s.optional("-")
	whole := s.digits()
	ok := whole == 1 || whole > 1 && s.text[s.at-whole] != '0'
	if s.optional(".") {
		ok = s.digits() > 0 && ok
	}
	if s.optional("eE") {
		s.optional("+-")
		ok = s.digits() > 0 && ok
	}
	return node{kind: kindNumber, text: s.text[start:s.at]}, ok
}

// optional takes one of some characters if it is there.
func (s *scanner) optional(some string) bool {
	if s.at == len(s.text) || strings.IndexByte(some, s.text[s.at]) < 0 {
		return false
	}
	s.at++
	return true
}

func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}
