//! Reads certificate requests for NodeRestriction and the audit, which know no X.509 themselves. Verifies no signature and decides nothing.

use portcullis_pki::csr;
use portcullis_policy::CertificateRequests;

/// Reads certificate requests in PEM.
#[derive(Clone, Copy, Debug)]
pub struct Pkcs10Reader;

impl CertificateRequests for Pkcs10Reader {
    fn common_name(&self, pem: &[u8]) -> Result<String, String> {
        csr::common_name(pem).map_err(|error| error.to_string())
    }

    fn organizations(&self, pem: &[u8]) -> Result<Vec<String>, String> {
        csr::organizations(pem).map_err(|error| error.to_string())
    }
}
