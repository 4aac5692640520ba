//! The flags for resource limits and for shutdown. Names are kube-apiserver's.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_apimachinery::duration::parse_unsigned;
use portcullis_server::api_server::STORE_QUOTA;
use portcullis_server::http::limits::Limits;

use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits and stopping")]
pub struct LimitFlags {
    /// The timeout of a request that is not a watch, such as 30s or 1m
    #[arg(long, value_name = "TIME", default_value = "1m0s", value_parser = duration)]
    request_timeout: Duration,

    /// The maximum number of concurrent read-only requests; more are answered with 429. 0 for no limit
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: usize,

    /// The maximum number of other concurrent requests; more are answered with 429. 0 for no limit
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: usize,

    /// The maximum number of concurrent requests on one HTTP/2 connection
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    http2_max_streams_per_connection: u32,

    /// The maximum size of all objects in the embedded store together, in bytes. A full store accepts deletions only. 0 for the
    /// default of 2 GiB, negative for no limit. etcd has a quota of its own
    #[arg(long, value_name = "BYTES", default_value_t = 0, allow_negative_numbers = true)]
    quota_backend_bytes: i64,

    /// How long to continue serving after a stop signal, with /readyz failing, so that no new clients arrive
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub shutdown_delay_duration: Duration,

    /// The serving certificate, in PEM, with intermediate certificates. Reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// The key of --tls-cert-file
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
}

impl LimitFlags {
    /// The limits of one client.
    ///
    /// # Errors
    /// A duration is zero.
    pub fn limits(&self) -> Result<Limits, Failure> {
        if self.request_timeout.is_zero() {
            return Err(Failure::input("--request-timeout must be at least 1s"));
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

    /// Returns the maximum size of all stored objects, in bytes; none for no limit.
    pub fn store_quota(&self) -> Option<u64> {
        match self.quota_backend_bytes {
            0 => Some(STORE_QUOTA),
            bytes => u64::try_from(bytes).ok(),
        }
    }

    /// Returns the files of an external serving certificate and its key, if given.
    pub fn serving_certificate(&self) -> Option<(PathBuf, PathBuf)> {
        self.tls_cert_file.clone().zip(self.tls_private_key_file.clone())
    }
}

/// Parses a duration as Go does: `1m30s`, `500ms`, `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_unsigned(text)
        .ok_or_else(|| format!("{text:?} is not a duration: write it like 30s, 1m30s or 500ms"))
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
