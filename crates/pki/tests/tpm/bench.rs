//! Reads the files of a bench.

use portcullis_pki::tpm::{CreationData, PublicArea, Statement};
use portcullis_testkit::software_tpm::Bench;

/// The nonce of the tests, in hexadecimal digits.
pub(crate) const NONCE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// The attributes of a kubelet's key that cannot leave the chip (AT-114).
pub(crate) const FIXED: &str = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|sign";

#[track_caller]
pub(crate) fn public(bench: &Bench, name: &str) -> PublicArea {
    PublicArea::parse(&bench.read(name)).unwrap()
}

#[track_caller]
pub(crate) fn statement(bench: &Bench, name: &str) -> Statement {
    Statement::parse(&bench.read(name)).unwrap()
}

/// Creation data. The tool writes its length in front (ST-25).
#[track_caller]
pub(crate) fn creation_data(bench: &Bench, name: &str) -> CreationData {
    CreationData::parse(&bench.read(name)[2..]).unwrap()
}
