//! The state machine that decides when to request a certificate, and when to give up (CS-101 to CS-107, CS-139), from
//! dates, random numbers and events. No I/O, no clock.

use std::time::{Duration, SystemTime};

use portcullis_pki::{Pair, Request};

use crate::call::CallError;

/// The minimum share of its lifetime after which a certificate is renewed, and the width of the random range above it
/// (CS-102).
const EARLIEST: f64 = 0.7;
const SPREAD: f64 = 0.2;
/// How long to wait for one request (CS-104).
pub const WAIT: Duration = Duration::from_secs(15 * 60);
/// The first delay after a failure, and the number of increasing delays (CS-105).
const FIRST_DELAY: Duration = Duration::from_secs(2);
const GROWING: u32 = 5;
const DELAY_JITTER: f64 = 0.1;
/// The delay after more failures.
const LATER_DELAY: Duration = Duration::from_secs(32);
/// How long a process continues without a certificate while the server responds (CS-139).
const WITHOUT: Duration = Duration::from_secs(5 * 60);

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Request a certificate.
    Request,
    /// Wait until this date.
    Wait(SystemTime),
    /// Exit: a restart may find other credentials (CS-139).
    End(Why),
}

/// Why a process without a certificate exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has expired, and the server, which responds, has issued no other.
    Expired,
    /// There was none for five minutes, although the server responds.
    Missing,
}

/// The state of the certificate.
#[derive(Clone, Debug)]
pub struct Manager {
    /// The expiry of the certificate, if there is one.
    not_after: Option<SystemTime>,
    /// When to renew the certificate. None: at once.
    deadline: Option<SystemTime>,
    failures: u32,
    /// The earliest time of the next attempt.
    not_before: Option<SystemTime>,
    /// Whether the server responded last time (CS-107).
    is_server_well: bool,
    /// Since when there is no certificate.
    without_since: Option<SystemTime>,
}

impl Manager {
    /// Starts with the existing certificate, if any (CS-101). If it has expired, or its contents are wrong, it is
    /// renewed at once; otherwise `chance`, from 0 to 1, determines when (CS-102).
    pub fn begin(current: Option<&Pair>, template: &Request, now: SystemTime, chance: f64) -> Self {
        let mut manager = Self {
            not_after: None,
            deadline: None,
            failures: 0,
            not_before: None,
            is_server_well: false,
            without_since: None,
        };
        match current {
            Some(pair) => {
                manager.not_after = Some(pair.not_after());
                if pair.satisfies(template) && pair.is_unexpired(now) {
                    manager.deadline = Some(rotation(pair.not_before(), pair.not_after(), chance));
                }
            }
            None => manager.without_since = Some(now),
        }
        manager
    }

    /// Renews the certificate at once, whatever its dates: it may only be used to request another one (CS-137).
    pub fn force(&mut self) {
        self.deadline = None;
    }

    /// Returns the next step.
    pub fn step(&self, now: SystemTime) -> Step {
        if let Some(why) = self.end(now) {
            return Step::End(why);
        }
        let due = self.deadline.unwrap_or(now).max(self.not_before.unwrap_or(SystemTime::UNIX_EPOCH));
        if due <= now { Step::Request } else { Step::Wait(due) }
    }

    /// Returns why the process has no reason to continue (CS-139). It exits only while the server responds; otherwise a
    /// restart would not help.
    fn end(&self, now: SystemTime) -> Option<Why> {
        if !self.is_server_well || self.failures == 0 {
            return None;
        }
        match self.not_after {
            Some(not_after) if now >= not_after => Some(Why::Expired),
            Some(_) => None,
            None => self.without_since.filter(|since| now >= *since + WITHOUT).map(|_| Why::Missing),
        }
    }

    /// Records a new certificate (CS-104).
    pub fn succeeded(&mut self, pair: &Pair, template: &Request, now: SystemTime, chance: f64) {
        *self = Self { is_server_well: true, ..Self::begin(Some(pair), template, now, chance) };
        if self.deadline.is_none() {
            // The new certificate is unusable: requesting another one at once could loop forever.
            self.failed(true, now, chance);
        }
    }

    /// Records a failed attempt (CS-105). `is_server_well` is whether the server responded (CS-107). Returns the time
    /// until the next attempt; zero if there is none.
    pub fn failed(&mut self, is_server_well: bool, now: SystemTime, chance: f64) -> Duration {
        self.not_before = Some(now + delay(self.failures, chance));
        self.failures = self.failures.saturating_add(1);
        self.is_server_well = is_server_well;
        match self.step(now) {
            Step::Wait(until) => until.duration_since(now).unwrap_or_default(),
            Step::Request | Step::End(_) => Duration::ZERO,
        }
    }
}

/// Returns when to renew a certificate: at 70 to 90 percent of its lifetime (CS-102).
pub fn rotation(not_before: SystemTime, not_after: SystemTime, chance: f64) -> SystemTime {
    let life = not_after.duration_since(not_before).unwrap_or_default();
    not_before + life.mul_f64(EARLIEST + SPREAD * share(chance))
}

/// Returns the delay after a failure, given the number of earlier failures (CS-105).
fn delay(failures: u32, chance: f64) -> Duration {
    if failures >= GROWING {
        return LATER_DELAY;
    }
    let growing = FIRST_DELAY * 2u32.saturating_pow(failures);
    growing.mul_f64(1.0 + DELAY_JITTER * share(chance))
}

/// Clamps a random number to the range from 0 to 1.
fn share(chance: f64) -> f64 {
    if chance.is_nan() { 0.0 } else { chance.clamp(0.0, 1.0) }
}

/// Returns whether this response shows that the server is available (CS-107), whether or not it accepts our
/// credentials.
pub fn is_server_well(error: &CallError) -> bool {
    matches!(error.code(), Some(401 | 403 | 404))
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_pki::ca::{Template, Usage};
    use portcullis_pki::{CertificateAuthority, KeyPair, pem};

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const MINUTE: Duration = Duration::from_secs(60);

    fn asked() -> Request {
        Request {
            common_name: "system:node:a".into(),
            organizations: vec!["system:nodes".into()],
            ..Request::default()
        }
    }

    fn pair(common_name: &str, now: SystemTime, lifetime: Duration) -> Pair {
        let ca = CertificateAuthority::generate("ca", now, 100 * DAY).unwrap();
        let key = KeyPair::generate().unwrap();
        let template = Template {
            common_name: common_name.into(),
            organizations: asked().organizations,
            dns_names: vec![],
            ip_addresses: vec![],
            usage: Usage::Client,
            lifetime,
        };
        let certificate = pem::encode("CERTIFICATE", &ca.issue(&template, &key, now).unwrap());
        Pair::from_pem(certificate.as_bytes(), key.to_pem().as_bytes()).unwrap()
    }

    fn begin(pair: Option<&Pair>, now: SystemTime) -> Manager {
        Manager::begin(pair, &asked(), now, 0.5)
    }

    #[test]
    fn cs_102_the_deadline_lies_between_70_and_90_percent_of_life() {
        let start = SystemTime::UNIX_EPOCH + 1000 * DAY;
        let end = start + 100 * DAY;
        for (chance, due) in [(0.0, 70), (0.5, 80), (1.0, 90), (-3.0, 70), (7.0, 90), (f64::NAN, 70)] {
            let at = rotation(start, end, chance);
            let days = at.duration_since(start).unwrap().as_secs_f64() / DAY.as_secs_f64();
            assert!(chance.is_nan() || (days - f64::from(due)).abs() < 0.001, "{chance}: {days}");
        }
        assert_eq!(rotation(end, start, 0.5), end, "a life that ends before it begins is over");
    }

    #[test]
    fn cs_101_what_is_unexpired_and_ours_is_used_and_anything_else_replaced_at_once() {
        let now = SystemTime::now();
        let good = pair("system:node:a", now, DAY);
        let Step::Wait(until) = begin(Some(&good), now).step(now) else { panic!("it is replaced") };
        assert_eq!(until, rotation(good.not_before(), good.not_after(), 0.5));
        assert_eq!(begin(Some(&good), now).step(until), Step::Request);
        assert_eq!(begin(Some(&pair("system:node:b", now, DAY)), now).step(now), Step::Request);
        assert_eq!(begin(Some(&good), now + 2 * DAY).step(now + 2 * DAY), Step::Request);
        assert_eq!(begin(None, now).step(now), Step::Request);
        let mut forced = begin(Some(&good), now);
        forced.force();
        assert_eq!(forced.step(now), Step::Request);
    }

    #[test]
    fn cs_105_attempts_back_off_and_then_come_every_32_seconds() {
        let mut now = SystemTime::now();
        let mut manager = begin(None, now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            manager.failed(false, now, 0.0);
            let Step::Wait(until) = manager.step(now) else { panic!("it does not wait") };
            waits.push(until.duration_since(now).unwrap().as_secs());
            now = until;
            assert_eq!(manager.step(now), Step::Request);
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 32, 32, 32]);
        assert_eq!(delay(0, 1.0), Duration::from_millis(2200));
    }

    #[test]
    fn cs_139_it_ends_without_a_certificate_only_while_the_server_is_well() {
        let now = SystemTime::now();
        for (is_well, end) in [(true, Step::End(Why::Missing)), (false, Step::Request)] {
            let mut manager = begin(None, now);
            manager.failed(is_well, now, 0.0);
            assert!(matches!(manager.step(now), Step::Wait(_)));
            assert_eq!(manager.step(now + 4 * MINUTE), Step::Request);
            assert_eq!(manager.step(now + 5 * MINUTE), end);
        }
        let expired = pair("system:node:a", now, DAY);
        let late = now + 2 * DAY;
        for (is_well, end) in [(true, Step::End(Why::Expired)), (false, Step::Request)] {
            let mut manager = begin(Some(&expired), late);
            assert_eq!(manager.step(late), Step::Request, "one attempt is always made");
            manager.failed(is_well, late, 0.0);
            assert_eq!(manager.step(late + MINUTE), end);
        }
        // A certificate that is due for renewal and has not expired remains in use.
        let mut manager = begin(Some(&expired), now);
        let due = now + DAY - MINUTE;
        manager.failed(true, due, 0.0);
        assert_eq!(manager.step(due + Duration::from_secs(30)), Step::Request);
    }

    #[test]
    fn what_is_issued_and_no_good_is_not_asked_for_again_at_once() {
        let now = SystemTime::now();
        let mut manager = begin(None, now);
        manager.succeeded(&pair("system:node:b", now, DAY), &asked(), now, 0.5);
        assert!(matches!(manager.step(now), Step::Wait(_)));
        manager.succeeded(&pair("system:node:a", now, DAY), &asked(), now, 0.5);
        let Step::Wait(until) = manager.step(now) else { panic!("it is replaced") };
        assert!(until > now + DAY / 2);
    }

    #[test]
    fn cs_107_a_server_that_says_no_is_well() {
        let refused = |code| CallError::Refused { code, reason: String::new(), message: String::new() };
        for code in [401, 403, 404] {
            assert!(is_server_well(&refused(code)), "{code}");
        }
        for code in [400, 409, 429, 500, 503] {
            assert!(!is_server_well(&refused(code)), "{code}");
        }
        assert!(!is_server_well(&CallError::Unreachable { server: String::new(), why: String::new() }));
    }
}
