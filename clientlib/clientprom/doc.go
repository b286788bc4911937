// Package clientprom counts the calls of clients in Prometheus metrics.
//
//	client, err := clientlib.New(ctx, "checkout", clientprom.With(prometheus.DefaultRegisterer))
//
// Every metric has the label client, so that the clients of a process share a
// registerer. The names are a contract:
//
//	timeouts_client_requests_total{client,adapter,upstream,route,method,status,outcome}
//	timeouts_client_request_duration_seconds{client,adapter,upstream,route,method,outcome}   to the headers of the final response, or the error
//	timeouts_client_body_duration_seconds{client,adapter,upstream,route,method,outcome}      from the headers to the end of the body
//	timeouts_client_attempts_total{client,adapter,upstream,route,method,status,outcome}
//	timeouts_client_attempt_duration_seconds{client,adapter,upstream,route,method,outcome}
//	timeouts_client_inflight{client,adapter,upstream}
//	timeouts_client_retry_skipped_total{client,upstream,reason}
//	timeouts_client_would_cut_total{client,upstream,limit}
//	timeouts_client_refused_total{client,upstream,source}         no time left, no request sent; policy, budget, caller
//	timeouts_client_circuit_state{client,upstream}                0 closed, 1 half-open, 2 open
//	timeouts_client_policy_reloads_total{client,result}           applied, rejected, invalid, recovered
//	timeouts_client_policy_info{client,revision,state}            1
//	timeouts_client_policy_age_seconds{client}                    since the document in force came into force
//	timeouts_client_policy_check_age_seconds{client}              since the source last made sure that nothing newer is there
//
// [Server] counts what became of the deadlines that requests brought to a server:
//
//	timeouts_server_deadlines_total{protocol,result}              accepted, bounded, spent, untrusted, malformed
//
// outcome is "success" or a failure kind such as "attempt_timeout". status is an
// HTTP status from 100 to 599 or the name of a gRPC code, else "none". method is
// one of HTTP's, else "_OTHER"; on gRPC "_OTHER" too, where the route says more.
// route is the policy's route, else the call site's template (at most
// [MaxTemplates] for each upstream), else "unknown".
//
// Nothing that a peer or a caller can vary at will becomes a label, and the
// series of an upstream or route that no document has any more are deleted.
package clientprom
