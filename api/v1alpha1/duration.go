package v1alpha1

import "github.com/timeout-operator/timeout-operator/clientlib/document"

// Duration is a length of time as the Gateway API writes it (GEP-2257): one to
// four numbers of at most five digits, each with its unit h, m, s or ms, such
// as "400ms", "1s500ms" or "1h30m"; they add up. There are no fractions, no
// signs, no days, and a number without unit is refused. The longest is 99999h.
// "0s" is no limit at all, which is not the same as an absent field.
//
// It holds the text as it was written, valid or not, so that an object stored
// under older rules never breaks a reader; see Parse.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=28
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
// +kubebuilder:validation:XValidation:rule=`!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('99999h')`,message="the longest duration is 99999h: write a shorter one, or \"0s\" for no limit"
type Duration string

// Parse reads the text. The error says what is wrong and what form is allowed.
func (d Duration) Parse() (document.Duration, error) {
	return document.ParseDuration(string(d))
}
