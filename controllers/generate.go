package controllers

//go:generate go tool controller-gen rbac:roleName=timeout-operator-manager paths=. output:rbac:dir=../config/rbac
