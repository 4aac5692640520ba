//! The program: every command, and every server that it starts. One binary for all suites, so that tests of one suite run while those of
//! another wait. Suites that must be alone, or that measure, are binaries of their own: `attacks`, `faults`, `idle`, `allocation`.

mod admission;
mod approve;
mod attest;
mod audit;
mod authentication;
mod authorization;
mod client;
#[path = "../../client/tests/support/clock.rs"]
mod clock;
mod command;
mod crash;
mod credential;
mod deploy;
mod disk;
mod encryption;
mod exchanges;
mod guard;
mod kubectl;
mod kubelet_session;
mod metrics;
mod no_token_in_logs;
mod raw_session;
mod readme;
mod release;
mod review;
mod serve;
mod site;
mod store;
mod webhook;
