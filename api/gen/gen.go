// Package gen is generated from openapi.yaml: the models, the strict echo server and the Go client.
package gen

//go:generate go tool oapi-codegen -config types.yaml ../openapi.yaml
//go:generate go tool oapi-codegen -config server.yaml ../openapi.yaml
//go:generate go tool oapi-codegen -config client.yaml ../openapi.yaml
