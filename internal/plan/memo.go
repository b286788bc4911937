package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
)

// Memo remembers what the documents of one namespace were rendered to in the last
// plan, so that a document whose content is the same is not rendered and read
// back again. It never changes what a plan decides. The zero value remembers
// nothing. A Memo is used by one plan at a time.
type Memo struct {
	// MaxHeld is how many bytes of documents an output holds; what is beyond is
	// rendered again when it is asked for. Hundreds of clients under a thousand
	// policies would take a hundred megabytes at once. Zero means 8 MiB.
	MaxHeld int

	documents map[string]remembered
}

// remembered is a document by what it was made of.
type remembered struct {
	content [sha256.Size]byte
	made    made
	// fits is how many policies, the oldest first, the document has room for; -1
	// when it has room for all. reason says why not.
	fits   int
	reason string
}

// made is a document as bytes, or what is known of them.
type made struct {
	// data is nil when the document was made by an earlier plan.
	data             []byte
	revision, digest string
	size             int
}

func newMade(data []byte, revision string) made {
	sum := sha256.Sum256(data)
	return made{data: data, revision: revision, digest: hex.EncodeToString(sum[:]), size: len(data)}
}

const defaultMaxHeld = 8 << 20

// hold lets go of the bytes of a document that the output has no room for.
func (p *planner) hold(m made) made {
	p.bytes += len(m.data)
	if memo := p.in.Memo; memo != nil && p.bytes > cmp.Or(memo.MaxHeld, defaultMaxHeld) {
		m.data = nil
	}
	return m
}

// recall returns what an earlier plan made of the same content.
func (p *planner) recall(t *target, content [sha256.Size]byte) (remembered, bool) {
	if p.in.Memo == nil {
		return remembered{}, false
	}
	known, ok := p.in.Memo.documents[t.configMap]
	return known, ok && known.content == content
}

// remember keeps what was made of the content, without the bytes.
func (p *planner) remember(t *target, r remembered) {
	if p.in.Memo == nil {
		return
	}
	r.made.data = nil
	if p.made == nil {
		p.made = map[string]remembered{}
	}
	p.made[t.configMap] = r
}

// contentKey digests everything that the bytes of the assembly's document depend
// on.
func (p *planner) contentKey(a *assembly) (key [sha256.Size]byte) {
	h := sha256.New()
	var number [8]byte
	count := func(n int) {
		binary.BigEndian.PutUint64(number[:], uint64(n))
		h.Write(number[:])
	}
	count(p.in.Options.MaxDocumentBytes)
	writeText(h, p.in.Namespace)
	writeText(h, a.client)
	if a.err != nil {
		writeText(h, a.err.Error())
	}
	count(len(a.policies))
	for _, policy := range a.policies {
		writeText(h, policy.mark)
		writeText(h, string(policy.object.UID))
	}
	count(len(a.groups))
	for _, g := range a.groups {
		writeText(h, g.part.print)
		count(len(g.hosts))
		for _, host := range g.hosts {
			writeText(h, host)
		}
	}
	h.Sum(key[:0])
	return key
}

// writeText ends a text so that two lists of texts never look the same.
func writeText(h hash.Hash, text string) {
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(text)))
	h.Write(length[:])
	_, _ = io.WriteString(h, text)
}
