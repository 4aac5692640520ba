//! What an attestor verifies (AT-70).

use std::fmt;

use portcullis_pki::csr::Csr;

use crate::check::Report;
use crate::exchange::Exchange;
use crate::machine::Machine;
use crate::record::Record;
use crate::request::{self, Claim};
use crate::serving::{self, ServingCase};
use crate::verified::{Offer, Verified};

/// A request that passed the core checks, with what is known about its machine.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// What the request claims.
    pub claim: &'a Claim,
    /// The key in the request, a DER SubjectPublicKeyInfo.
    pub public_key: &'a [u8],
    /// The machine that it claims to be.
    pub machine: &'a Machine,
    /// What was recorded about the machine before; none at the first time.
    pub record: Option<&'a Record>,
    /// The exchange that the request belongs to.
    pub exchange: &'a Exchange<'a>,
}

/// How far a request got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The node must answer a challenge.
    Challenge(Offer),
    /// The machine is who it claims to be.
    Verified(Verified),
}

/// An attestor: one kind of evidence. It decides from its arguments alone: it has no clock, and talks to nobody (AT-70).
pub trait Provider: fmt::Debug + Send + Sync {
    /// The name, as in evidence and signers.
    fn name(&self) -> &str;

    /// Verifies the evidence of a request for a client certificate.
    fn verify_client(&self, case: &Case<'_>) -> Report<Progress>;

    /// Verifies that a request for a serving certificate comes from the machine. Its names are compared with those of the
    /// machine by others (AT-171).
    fn verify_serving(&self, case: &ServingCase<'_>) -> Report<()> {
        serving::check(case, self.name())
    }

    /// The name of the machine that a request is for; none if it is not for one.
    fn machine_name<'a>(&self, csr: &'a Csr) -> Option<&'a str> {
        request::node_name(csr)
    }
}
