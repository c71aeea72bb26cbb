package mounts

// Certificates, Missing and Extend are the bundle's pure parts.
var (
	Certificates = certificates
	Missing      = missing
	Extend       = extend
)
