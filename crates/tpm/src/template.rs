//! The templates from which the TPM makes keys: public areas without a key in them (AT-111, AT-113, AT-114).

use crate::public::attribute::{
    ADMIN_WITH_POLICY, DECRYPT, FIXED_PARENT, FIXED_TPM, NO_DA, RESTRICTED, SENSITIVE_DATA_ORIGIN, SIGN,
    USER_WITH_AUTH,
};
use crate::wire::Writer;

const RSA: u16 = 0x0001;
const AES: u16 = 0x0006;
const KEYED_HASH: u16 = 0x0008;
pub(crate) const SHA256: u16 = 0x000b;
const SHA384: u16 = 0x000c;
pub(crate) const NULL: u16 = 0x0010;
const ECDSA: u16 = 0x0018;
pub(crate) const ECC: u16 = 0x0023;
const CFB: u16 = 0x0043;
const P256: u16 = 0x0003;
const P384: u16 = 0x0004;

const RESIDENT: u32 = FIXED_TPM | FIXED_PARENT | SENSITIVE_DATA_ORIGIN;
const STORAGE: u32 = RESIDENT | RESTRICTED | DECRYPT;

/// The policy of endorsement keys of the low range: whoever may use the endorsement hierarchy (annex A).
const LOW_RANGE_POLICY: [u8; 32] = [
    0x83, 0x71, 0x97, 0x67, 0x44, 0x84, 0xb3, 0xf8, 0x1a, 0x90, 0xcc, 0x8d, 0x46, 0xa5, 0xd7, 0x24, 0xfd,
    0x52, 0xd7, 0x6e, 0x06, 0x52, 0x0b, 0x64, 0xf2, 0xa1, 0xda, 0x1b, 0x33, 0x14, 0x69, 0xaa,
];

/// The policy of endorsement keys of the high range with SHA-384 (TCG EK Credential Profile, `PolicyB`).
const HIGH_RANGE_POLICY_SHA384: [u8; 48] = [
    0xb2, 0x6e, 0x7d, 0x28, 0xd1, 0x1a, 0x50, 0xbc, 0x53, 0xd8, 0x82, 0xbc, 0xf5, 0xfd, 0x3a, 0x1a, 0x07,
    0x41, 0x48, 0xbb, 0x35, 0xd3, 0xb4, 0xe4, 0xcb, 0x1c, 0x0a, 0xd9, 0xbd, 0xe4, 0x19, 0xca, 0xcb, 0x47,
    0xba, 0x09, 0x69, 0x96, 0x46, 0x15, 0x0f, 0x9f, 0xc0, 0x00, 0xf3, 0xf8, 0x0e, 0x12,
];

/// Type, name algorithm, attributes and policy: what each public area begins with.
fn begin(kind: u16, name_algorithm: u16, attributes: u32, policy: &[u8]) -> Writer {
    Writer::default().u16(kind).u16(name_algorithm).u32(attributes).sized(policy)
}

/// The endorsement key RSA-2048 of the low range, attributes `0x000300b2`.
pub(crate) fn endorsement_rsa2048() -> Writer {
    let public = begin(RSA, SHA256, STORAGE | ADMIN_WITH_POLICY, &LOW_RANGE_POLICY);
    // The exponent 0 stands for 65537.
    public.u16(AES).u16(128).u16(CFB).u16(NULL).u16(2048).u32(0).sized(&[0; 256])
}

/// The endorsement key P-256 of the low range, attributes `0x000300b2`.
pub(crate) fn endorsement_p256() -> Writer {
    let public = begin(ECC, SHA256, STORAGE | ADMIN_WITH_POLICY, &LOW_RANGE_POLICY);
    public.u16(AES).u16(128).u16(CFB).u16(NULL).u16(P256).u16(NULL).sized(&[0; 32]).sized(&[0; 32])
}

/// The endorsement key P-384 of the high range, attributes `0x000300f2`.
pub(crate) fn endorsement_p384() -> Writer {
    let attributes = STORAGE | ADMIN_WITH_POLICY | USER_WITH_AUTH;
    let public = begin(ECC, SHA384, attributes, &HIGH_RANGE_POLICY_SHA384);
    public.u16(AES).u16(256).u16(CFB).u16(NULL).u16(P384).u16(NULL).sized(&[]).sized(&[])
}

/// A storage root key P-256, for a TPM that has none at the reserved handle.
pub(crate) fn storage_root() -> Writer {
    let public = begin(ECC, SHA256, STORAGE | USER_WITH_AUTH | NO_DA, &[]);
    public.u16(AES).u16(128).u16(CFB).u16(NULL).u16(P256).u16(NULL).sized(&[]).sized(&[])
}

/// What follows the policy of a key that signs with ECDSA, P-256 and SHA-256.
fn signing(public: Writer, x: &[u8], y: &[u8]) -> Writer {
    public.u16(NULL).u16(ECDSA).u16(SHA256).u16(P256).u16(NULL).sized(x).sized(y)
}

/// An attestation key: restricted, P-256, attributes `0x00050072` (AT-113).
pub(crate) fn attestation_key() -> Writer {
    signing(begin(ECC, SHA256, RESIDENT | USER_WITH_AUTH | RESTRICTED | SIGN, &[]), &[], &[])
}

/// A kubelet's key: P-256, attributes `0x00040072`, or with a policy instead of the empty password `0x00040032`
/// (AT-114).
pub(crate) fn kubelet_key(policy: Option<&[u8]>) -> Writer {
    signing(begin(ECC, SHA256, with_policy(RESIDENT | SIGN, policy), policy.unwrap_or_default()), &[], &[])
}

/// The public area of a software key that is loaded into the TPM (AT-117). The coordinates have their full size
/// (AT-37).
pub(crate) fn software_key(x: &[u8; 32], y: &[u8; 32]) -> Writer {
    signing(begin(ECC, SHA256, USER_WITH_AUTH | SIGN, &[]), x, y)
}

/// Data that the TPM seals. Nobody can guess an empty password, so the lockout does not apply.
pub(crate) fn sealed(policy: Option<&[u8]>) -> Writer {
    let attributes = with_policy(FIXED_TPM | FIXED_PARENT | NO_DA, policy);
    begin(KEYED_HASH, SHA256, attributes, policy.unwrap_or_default()).u16(NULL).sized(&[])
}

fn with_policy(attributes: u32, policy: Option<&[u8]>) -> u32 {
    if policy.is_some() { attributes } else { attributes | USER_WITH_AUTH }
}
