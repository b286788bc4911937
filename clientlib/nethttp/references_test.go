package nethttp_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// references says which test holds what somebody else's tracker taught, or what
// a case of our own list asks for. Tests of package engine have its name before
// them; the rest are here.
var references = []struct{ what, tests string }{
	{"cancelled when the call returns: failsafe-go#123, Azure/azure-sdk-for-go#17780, superplanehq/superplane#3141, redpanda#2757; T02", "TestBesideABareClient"},
	{"state of one call in shared objects: failsafe-go#136", "TestACancelledProbeLeavesItsSlotToTheNextCall"},
	{"fresh context and body per attempt: failsafe-go#65 #73 #134", "TestEachAttemptHasAContextOfItsOwn TestEachViewReadsTheWholeBody"},
	{"Retry-After and the caps: go-retryablehttp#247 #283 #295 #298", "retryafter.TestParse engine.TestDecide TestWaitsThatDoNotFitAreNotBegun"},
	{"overflow of the backoff: go-retryablehttp#297, openai-go#519, avast/retry-go#30, dragonfly#4851, qdrant/go-client#153", "engine.TestDelayNeverOverflows"},
	{"a retry that cannot fit: go-retryablehttp#272 #292, temporal#3630; T05", "TestWaitsThatDoNotFitAreNotBegun engine.TestDecide TestDrainingDoesNotPushTheBackoffPastTheDeadline"},
	{"attempt and caller confused: go-retryablehttp#127 #167, turbopuffer-go#138, rehttp#1, grpc-go#2260, gax-go#420, gax-java#561", "TestHungServerIsRetriedAndEndsAtTheTotal TestCallersDeadlineIsATotalOfTheCaller TestNoAttemptAfterTheCallersDeadline"},
	{"body read after the return: go-retryablehttp#94 #89, golang/go#51907 #30597 #12796 #61596 #81445, kubernetes#113933", "TestEachViewReadsTheWholeBody TestAViewThatStillReadsTakesNothingAway"},
	{"GOAWAY and stale connections: golang/go#39086 #32441 #18241, cloudflared#1273, go-ethereum#24291", "TestUnprocessedRequestsAreRepeatedWhateverTheMethod"},
	{"REFUSED_STREAM: golang/go#20985", "TestUnprocessedRequestsAreRepeatedWhateverTheMethod TestARefusedStreamThatCannotBeRepeatedSaysSo"},
	{"POST on a stale connection: golang/go#19943", "TestAnIdleConnectionClosedByTheServerIsDisconnected"},
	{"empty non-nil body: go-retryablehttp#194", "TestBesideABareClient"},
	{"response and error both: go-retryablehttp#179 #299", "TestNeverAResponseAndAnError"},
	{"the pool is left alone: go-retryablehttp#98", "TestConnectionsAreUsedAgainAfterRetries"},
	{"drained, but not without bound: go-retryablehttp#82 #246, golang/go#77370, openai-go#495, heimdall#45; M1, M8", "TestDrainingIsBounded TestConnectionsAreUsedAgainAfterRetries"},
	{"CheckRedirect: go-retryablehttp#128; M5", "TestBesideABareClient"},
	{"101 stays a connection: golang/go#31391, otel-contrib#1329; M6", "TestAnUpgradeStaysAConnection"},
	{"101 that nobody asked for: golang/go#44988 #71325", "TestAnUpgradeThatNobodyAskedForIsUnderTheTotal"},
	{"event streams: mcp-go#88 #552, eino-ext#858, any-llm-go#152, go-marathon#237, go-grpc-middleware#636 #216 #261", "TestAnEventStreamIsNotCutUnlessItsRouteSaysSo"},
	{"deadline in another error's words: golang/go#64449 #14238, quic-go#4196, connect-go#904, grpc-go#2211, grpc#2685", "TestAtTheDeadlineItIsTheDeadlineWhateverTheWireSays TestRealFailuresHaveTheirKind"},
	{"the caller's cause: golang/go#72898 #17711 #18596; M4, M8", "TestCallersCancellationIsTheCallersOwn engine.TestACallThatIsOverBeforeItBegins engine.TestCauseOf TestATimeoutIsATimeoutToEverybody TestRealFailuresHaveTheirKind"},
	{"dead on arrival: golang/go#46206 #25852", "engine.TestACallThatIsOverBeforeItBegins TestBesideABareClient"},
	{"CloseIdleConnections and Unwrap: otel-contrib#3543, kubernetes#104844, keda#7902, elastic/apm-agent-go#455", "TestBesideABareClient TestTheTransportUnderneathCanBeHad"},
	{"hooks: golang/go#16957 #59310 #18305 #34282, dd-trace-go#4525, routing-release#513", "TestHooksMayComeLateAndTwice"},
	{"100-continue: golang/go#45834 #16003", "TestContinueIsNotTheResponse TestAWaitForContinueIsPartOfTheAttempt TestBesideABareClient"},
	{"dead HTTP/2 connections: golang/go#36026 #59690 #30702, palantir/conjure-go-runtime#189; T17", "TestADeadHTTP2ConnectionIsReplaced"},
	{"half-open is bounded, one success closes: gobreaker#53 #63", "engine.TestHalfOpenBoundsProbesAndOneSuccessCloses"},
	{"cancels are neutral: gobreaker#105 #107, tsouza/cerberus#738, apache/brpc#3532", "engine.TestANeutralProbeReleasesItsSlot engine.TestOneSignalPerCall TestACancelledProbeLeavesItsSlotToTheNextCall"},
	{"stuck half-open: resilience4j#903", "engine.TestProbesThatNeverEndTimeOut"},
	{"reload keeps state: resilience4j#2181 #850 #1116 #2325", "engine.TestStateIsTakenOverOnASwap TestAReloadNeitherClosesACircuitNorFillsABudget"},
	{"reload under a call: Polly#1578", "TestASwapDoesNotTouchACallUnderWay TestCallersNeverNoticeThatThePolicyIsSwapped"},
	{"retry budget: aws-sdk-go-v2#3413 #1665", "engine.TestDecideAsksTheRetryBudget engine.TestRetryBudgetIsBurstAndThenPercent"},
	{"deadline header: envoy#13196, envoy#7358", "TestEachAttemptTellsThePeerWhatIsLeft TestLessThanTheHeaderCanSayIsNotSent"},
	{"timeouts that stop at the headers: M2", "TestTotalCoversABodyThatDrips"},
	{"what is left behind: M4", "TestNothingIsLeftBehind TestABodyNobodyClosesEndsWithTheTotal"},
	{"allocations: 4.1 to 4.8", "TestAllocations engine.TestTheTimerIsUsedAgainUnlessItFired engine.TestACallersSoonerDeadlineNeedsNoTimer engine.TestLookupDoesNotAllocate"},
	{"redirects: 4.6", "TestRedirectsShareOneDeadlineAndOneBreakerSignal TestSlowRedirectsStayOneCall TestARedirectWhoseBodyNobodyClosesIsCountedAllTheSame"},

	{"A08, A09", "TestZeroIsNoLimit"},
	{"A10, T09", "TestWithoutACeilingTheTotalCuts"},
	{"A12", "TestACeilingWithoutATotalCuts"},
	{"A14, A17", "engine.TestDefaultsOfEachBlock"},
	{"A15", "engine.TestUnknownKindsDoNothing"},
	{"A18", "TestAttemptsAreNeverCappedInSilence"},
	{"A28", "TestAPostIsMadeTwiceOnlyWithLeave engine.TestRepeatable"},
	{"A29", "TestABodyThatCannotBeRewoundIsNotSentTwice TestPostIsNotRepeatedWithoutLeave TestHungServerIsRetriedAndEndsAtTheTotal"},
	{"R25", "engine.TestABreakerThatAReloadAddsWorksAtOnce"},
	{"T01, dotnet/extensions#4770 #4925 #5363", "TestTotalCoversABodyThatDrips TestScopeHeadersLetsTheBodyTakeItsTime TestATimeoutOfTheHTTPClientIsToldOnTheStatus"},
	{"T07", "TestNoAttemptAfterTheCallersDeadline"},
	{"T13", "engine.TestAFailingProbeOpensForAFullRecovery"},
	{"T16", "TestRetriesEndWithTheTotal"},
	{"T19", "TestADelayUnderneathCounts"},
}

func TestEachReferenceHasItsTests(t *testing.T) {
	have := map[string]bool{}
	for _, folder := range []struct{ glob, prefix string }{{"*_test.go", ""}, {"../engine/*_test.go", "engine."}, {"../retryafter/*_test.go", "retryafter."}} {
		files, err := filepath.Glob(folder.glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					have[folder.prefix+fn.Name.Name] = true
				}
			}
		}
	}
	for _, r := range references {
		for _, test := range strings.Fields(r.tests) {
			if !have[test] {
				t.Errorf("%s: there is no test %s", r.what, test)
			}
		}
	}
}
