package adaptertest

func scenarioChecks(*Adapter) []check { return nil }
