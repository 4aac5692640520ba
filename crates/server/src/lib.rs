//! Listens: the API endpoint, the webhooks and the kubelet guard, and what they start from.

pub mod state;
