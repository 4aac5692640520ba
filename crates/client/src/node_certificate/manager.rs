//! When to ask for a certificate, and when to give up (CS-101 to CS-107, CS-139): from dates, chance and what happened.
//! No I/O, no clock.

use std::time::{Duration, SystemTime};

use portcullis_pki::{Pair, Request};

use crate::call::CallError;

/// The share of its life after which a certificate is replaced at the earliest, and how much later at the latest
/// (CS-102).
const EARLIEST: f64 = 0.7;
const SPREAD: f64 = 0.2;
/// How long one request is waited for (CS-104).
pub const WAIT: Duration = Duration::from_secs(15 * 60);
/// The first wait after an attempt that failed, and how many of them grow (CS-105).
const FIRST_DELAY: Duration = Duration::from_secs(2);
const GROWING: u32 = 5;
const DELAY_JITTER: f64 = 0.1;
/// How long after so many attempts.
const LATER_DELAY: Duration = Duration::from_secs(32);
/// How long a process goes on without a certificate while the server is well (CS-139).
const WITHOUT: Duration = Duration::from_secs(5 * 60);

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask for a certificate.
    Request,
    /// Nothing before this date.
    Wait(SystemTime),
    /// End: a restart may find other credentials (CS-139).
    End(Why),
}

/// Why a process ends that has no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has expired, and the server, which is well, issues no other.
    Expired,
    /// There has been none for five minutes, and the server is well.
    Missing,
}

/// The dates of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    not_before: SystemTime,
    not_after: SystemTime,
}

/// What a process knows of its certificate.
#[derive(Clone, Debug)]
pub struct Manager {
    life: Option<Life>,
    /// When the certificate is to be replaced. Nothing: at once.
    deadline: Option<SystemTime>,
    failures: u32,
    /// When the next attempt may be made.
    not_before: Option<SystemTime>,
    /// Whether the server answered last (CS-107).
    is_server_well: bool,
    /// Since when there has been no certificate.
    without_since: Option<SystemTime>,
}

impl Manager {
    /// Begins with the certificate that there is, if there is one (CS-101). One that has expired, or does not say what
    /// it must, is to be replaced at once; `chance`, from 0 to 1, decides when any other one is (CS-102).
    pub fn begin(current: Option<&Pair>, template: &Request, now: SystemTime, chance: f64) -> Self {
        let mut manager = Self {
            life: None,
            deadline: None,
            failures: 0,
            not_before: None,
            is_server_well: false,
            without_since: None,
        };
        match current {
            Some(pair) => {
                manager.life = Some(Life { not_before: pair.not_before(), not_after: pair.not_after() });
                if pair.satisfies(template) && pair.is_unexpired(now) {
                    manager.deadline = Some(rotation(pair.not_before(), pair.not_after(), chance));
                }
            }
            None => manager.without_since = Some(now),
        }
        manager
    }

    /// Replaces the certificate at once, whatever its dates are: it is only good for asking for another one (CS-137).
    pub fn force(&mut self) {
        self.deadline = None;
    }

    /// What to do now.
    pub fn step(&self, now: SystemTime) -> Step {
        if let Some(why) = self.end(now) {
            return Step::End(why);
        }
        let due = self.deadline.unwrap_or(now).max(self.not_before.unwrap_or(SystemTime::UNIX_EPOCH));
        if due <= now { Step::Request } else { Step::Wait(due) }
    }

    /// Why the process has no reason to go on (CS-139). Only a server that is well is a reason to end: another start
    /// would find the one that is not just as ill.
    fn end(&self, now: SystemTime) -> Option<Why> {
        if !self.is_server_well || self.failures == 0 {
            return None;
        }
        match self.life {
            Some(life) if now >= life.not_after => Some(Why::Expired),
            Some(_) => None,
            None => self.without_since.filter(|since| now >= *since + WITHOUT).map(|_| Why::Missing),
        }
    }

    /// There is a new certificate (CS-104).
    pub fn succeeded(&mut self, pair: &Pair, template: &Request, now: SystemTime, chance: f64) {
        *self = Self { is_server_well: true, ..Self::begin(Some(pair), template, now, chance) };
        if self.deadline.is_none() {
            // A certificate that is no good from the start: asking at once for the next one would never end.
            self.failed(true, now, chance);
        }
    }

    /// An attempt has failed (CS-105). `is_server_well` says whether the server answered (CS-107).
    pub fn failed(&mut self, is_server_well: bool, now: SystemTime, chance: f64) {
        self.not_before = Some(now + delay(self.failures, chance));
        self.failures = self.failures.saturating_add(1);
        self.is_server_well = is_server_well;
    }
}

/// When a certificate is to be replaced: at 70 to 90 percent of its life (CS-102).
pub fn rotation(not_before: SystemTime, not_after: SystemTime, chance: f64) -> SystemTime {
    let life = not_after.duration_since(not_before).unwrap_or_default();
    not_before + life.mul_f64(EARLIEST + SPREAD * chance.clamp(0.0, 1.0))
}

/// How long to wait after a failure, the number of those before it given (CS-105).
fn delay(failures: u32, chance: f64) -> Duration {
    if failures >= GROWING {
        return LATER_DELAY;
    }
    let growing = FIRST_DELAY * 2u32.saturating_pow(failures);
    growing.mul_f64(1.0 + DELAY_JITTER * chance.clamp(0.0, 1.0))
}

/// Whether a server that gave such an answer is well (CS-107): it knows us or does not, but it is there.
pub fn is_server_well(error: &CallError) -> bool {
    matches!(error.code(), Some(401 | 403 | 404))
}
