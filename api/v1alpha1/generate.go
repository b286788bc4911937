package v1alpha1

//go:generate go -C ../.. tool controller-gen object applyconfiguration crd paths=./api/... output:crd:dir=config/crd/bases
