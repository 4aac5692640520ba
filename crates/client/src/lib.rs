//! Talks to an API server that is not ours: the only crate that names the Kubernetes client.
//!
//! It asks and tells. What may be is decided by `portcullis_policy`, what is proved by `portcullis_pki`.
