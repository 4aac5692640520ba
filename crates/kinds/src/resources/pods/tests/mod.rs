//! Pods against the recorded answers of Kubernetes.

mod properties;
mod replay;
