// Package plane is the stage of the load programs: a real control plane, the
// operator as a process of its own under its own service account, and what both
// of them cost. It measures from the outside only: requests are counted by the
// API server's audit log, memory and processor time by the operating system.
package plane
