//! The flags that bound what clients may take up, and say how the server stops. Names are kube-apiserver's.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_server::config::Limits;

use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits and stopping")]
pub struct LimitFlags {
    /// How long a request may take that is no watch, such as 30s or 1m
    #[arg(long, value_name = "TIME", default_value = "1m0s", value_parser = duration)]
    request_timeout: Duration,

    /// Requests that only read, at one time; further ones are answered 429. 0 for no limit
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: usize,

    /// Other requests at one time; further ones are answered 429. 0 for no limit
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: usize,

    /// Requests at one time on one HTTP/2 connection
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    http2_max_streams_per_connection: u32,

    /// How long to serve on after being told to stop, with /readyz failing, so that nobody new comes
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub shutdown_delay_duration: Duration,

    /// The certificate to serve with, in PEM form, with those between it and its authority. Taken up anew when it changes
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// The key of --tls-cert-file
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
}

impl LimitFlags {
    /// What one client may take up.
    ///
    /// # Errors
    /// A time of nothing.
    pub fn limits(&self) -> Result<Limits, Failure> {
        if self.request_timeout.is_zero() {
            return Err(Failure::input(
                "--request-timeout 0s leaves no time for any request: name at least 1s",
            ));
        }
        let usual = Limits::default();
        Ok(Limits {
            request: self.request_timeout,
            body_read: usual.body_read.min(self.request_timeout),
            read_only_in_flight: self.max_requests_inflight,
            mutating_in_flight: self.max_mutating_requests_inflight,
            streams: self.http2_max_streams_per_connection,
            ..usual
        })
    }

    /// The files of a serving certificate and its key that are not the server's own.
    pub fn serving_certificate(&self) -> Option<(PathBuf, PathBuf)> {
        self.tls_cert_file.clone().zip(self.tls_private_key_file.clone())
    }
}

/// A time as Go writes it: `1m30s`, `500ms`, `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time: write it like 30s, 1m30s or 500ms");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let end =
            rest.find(|c: char| !c.is_ascii_digit()).filter(|end| (1..=9).contains(end)).ok_or_else(wrong)?;
        let (number, after) = rest.split_at_checked(end).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(unit_end).ok_or_else(wrong)?;
        total += match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number * 60),
            "h" => Duration::from_secs(number * 3600),
            _ => return Err(wrong()),
        };
        rest = next;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_go() {
        // From the documentation of Go's time.ParseDuration, without fractions and signs.
        for (text, seconds) in [("1h15m30s", 4530.0), ("300ms", 0.3), ("1m0s", 60.0), ("0", 0.0), ("0s", 0.0)]
        {
            assert!((duration(text).unwrap().as_secs_f64() - seconds).abs() < 1e-9, "{text}");
        }
        for text in ["", "1", "s", "-1s", "1d", "1s2", "9999999999s", "１s", "1 s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}
