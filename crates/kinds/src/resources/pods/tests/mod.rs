//! Tests of pods against recorded responses of Kubernetes.

mod mirror;
mod properties;
mod replay;
