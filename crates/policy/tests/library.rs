//! The library: decisions, indexes and reports. One binary for all suites.

mod audit;
mod decoding_errors;
mod diff;
mod explain;
mod findings_pages;
mod graph;
mod kubelet_access;
mod kubelet_api;
mod live_engine;
mod machine_approver;
mod node_authorizer;
mod node_restriction;
mod rbac_comparison;
mod rbac_default_policy;
mod rbac_escalation;
mod rbac_explain;
mod rbac_model;
mod rbac_reconcile;
mod rbac_recorded;
mod rehearsal;
mod who_can;
