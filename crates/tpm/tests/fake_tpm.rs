//! The client against TPMs that answer too little, too much, nonsense, late, or not at all (AT-125, AT-195).
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot be set up must stop"
)]

use std::time::Duration;

use portcullis_testkit::fake_tpm::FakeTpm;
use portcullis_testkit::software_tpm::Manufacturer;
use portcullis_tpm::answer::Answer;
use portcullis_tpm::{
    Address, AttestationParent, CreatedKey, Creation, EndorsementKind, KeyOptions, Pcrs, ResponseCode,
    Signature, SoftwareKey, Tpm, TpmError, Wrapped, split_certificates,
};
use proptest::prelude::*;

/// `TPM2_GetRandom` of 8 bytes.
const RANDOM: [u8; 20] = [0x80, 1, 0, 0, 0, 20, 0, 0, 0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];

fn client(fake: &FakeTpm) -> Tpm {
    Tpm::at(fake.connection().parse().unwrap())
}

fn response(code: u32) -> Vec<u8> {
    [&[0x80, 1, 0, 0, 0, 10][..], &code.to_be_bytes()].concat()
}

fn random_of(answers: Vec<Vec<u8>>) -> Result<Vec<u8>, TpmError> {
    client(&FakeTpm::answering(answers)).random(8)
}

/// A response with a size that fits.
fn resized(mut response: Vec<u8>) -> Vec<u8> {
    let size = u32::try_from(response.len()).unwrap();
    if let Some(field) = response.get_mut(2..6) {
        field.copy_from_slice(&size.to_be_bytes());
    }
    response
}

#[test]
fn a_busy_tpm_is_asked_again_at_125() {
    let answers = [0x922, 0x908, 0x90a].map(response).into_iter().chain([RANDOM.to_vec()]).collect();
    assert_eq!(random_of(answers).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    let error = random_of(vec![response(0x922); 30]).unwrap_err();
    assert_eq!(error.code(), Some(ResponseCode(0x922)));
}

#[test]
fn a_refusal_says_which_command_and_why_at_125() {
    let error = random_of(vec![response(0x921)]).unwrap_err();
    assert!(error.code().unwrap().is_lockout());
    let text = error.to_string();
    assert!(text.contains("TPM2_GetRandom with 0x921 (TPM_RC_LOCKOUT: the TPM is locked out"), "{text}");
    let text = random_of(vec![response(0x0007_0999)]).unwrap_err().to_string();
    assert!(text.ends_with("TPM2_GetRandom with 0x70999"), "{text}");
}

#[test]
fn an_absent_tpm_is_an_error_with_its_address_at_125() {
    let text = |address: &str| Tpm::at(address.parse().unwrap()).random(1).unwrap_err().to_string();
    for address in ["unix:/nowhere/tpm", "device:/nowhere/tpm", "tcp:127.0.0.1:1"] {
        let shown = text(address);
        assert!(shown.starts_with(&format!("cannot open the TPM at {address}: ")), "{shown}");
    }
    assert!(text("/dev").contains("it is no character device"));
    // A character device that is no TPM.
    assert!(matches!(Tpm::at("/dev/null".parse().unwrap()).random(1), Err(TpmError::Response { .. })));
}

#[test]
fn a_silent_tpm_is_not_waited_for_without_end_at_125() {
    let fake = FakeTpm::silent();
    let tpm = client(&fake).with_timeout(Duration::from_millis(100));
    assert!(matches!(tpm.random(8), Err(TpmError::Busy { .. })));
}

#[test]
fn sizes_that_are_wrong_are_refused_at_195() {
    let mut cases: Vec<Vec<u8>> = (0..RANDOM.len()).map(|end| RANDOM[..end].to_vec()).collect();
    cases.extend((10..RANDOM.len()).map(|end| resized(RANDOM[..end].to_vec())));
    for size in [0_u32, 9, 19, 21, 4096, 4097, u32::MAX] {
        let mut wrong = RANDOM.to_vec();
        wrong[2..6].copy_from_slice(&size.to_be_bytes());
        cases.push(wrong);
    }
    cases.push([&RANDOM[..], &[0]].concat());
    cases.push(resized([&RANDOM[..], &[0]].concat()));
    cases.push(resized([&RANDOM[..], &[0; 5000]].concat()));
    cases.push(vec![0xff; 6000]);
    // With sessions, which the command has not.
    cases.push([&[0x80, 2][..], &RANDOM[2..]].concat());
    for case in cases {
        let result = client(&FakeTpm::answering(vec![case.clone()])).random(8);
        assert!(
            matches!(result, Err(TpmError::Response { .. } | TpmError::Io { .. })),
            "{case:?}: {result:?}"
        );
    }
}

type Operation = fn(&Tpm, &Kept) -> Result<(), TpmError>;

/// What operations need that a real TPM has made.
struct Kept {
    ak: portcullis_tpm::AttestationKey,
    key: CreatedKey,
}

const OPERATIONS: &[Operation] = &[
    |tpm, _| tpm.random(8).map(drop),
    |tpm, _| tpm.clock().map(drop),
    |tpm, _| tpm.properties().map(drop),
    |tpm, _| tpm.endorsement_key().map(drop),
    |tpm, _| tpm.endorsement_key_of(EndorsementKind::P256).map(drop),
    |tpm, _| tpm.pcr_values(Pcrs::new(&[0, 7, 8, 9, 10, 11, 12, 13, 14])?).map(drop),
    |tpm, _| {
        tpm.create_attestation_key(AttestationParent::EndorsementKey(EndorsementKind::Rsa2048)).map(drop)
    },
    |tpm, _| {
        let bound_to = Some(Pcrs::new(&[7])?);
        tpm.create_key(KeyOptions { bound_to, outside_info: &[1; 32], pcrs: bound_to }).map(drop)
    },
    |tpm, kept| tpm.sign_digest(&kept.key.wrapped, None, &[1; 32]).map(drop),
    |tpm, kept| tpm.certify(&kept.key, &kept.ak, &[1; 32]).map(drop),
    |tpm, kept| tpm.certify_creation(&kept.key, &kept.ak, &[1; 32]).map(drop),
    |tpm, kept| tpm.quote(Pcrs::new(&[7])?, &kept.ak, &[1; 32]).map(drop),
    |tpm, kept| {
        let key = SoftwareKey::new(&kept.key.wrapped.public()[23..], &[1]);
        key.map_or(Ok(()), |key| tpm.certify_software_key(&key, &kept.ak, &[1; 32]).map(drop))
    },
];

#[test]
fn each_response_that_is_cut_or_continued_is_an_error_st_31() {
    let maker = Manufacturer::new();
    let chip = maker.make("a");
    let tpm = Tpm::at(chip.connection().parse().unwrap());
    let kept = Kept {
        ak: tpm.create_attestation_key(AttestationParent::StorageRoot).unwrap(),
        key: tpm.create_key(KeyOptions::default()).unwrap(),
    };
    for (number, operation) in OPERATIONS.iter().enumerate() {
        let recorder = FakeTpm::recording(&chip.socket());
        operation(&client(&recorder), &kept).unwrap();
        let answers = recorder.recorded();
        let replay = |answers| operation(&client(&FakeTpm::answering(answers)), &kept);
        replay(answers.clone()).unwrap();
        for (index, answer) in answers.iter().enumerate() {
            // Those of 10 bytes are refusals that are expected, and have no content.
            if answer.len() == 10 {
                continue;
            }
            let cuts = (10..answer.len()).map(|end| resized(answer[..end].to_vec()));
            let longer = [[&**answer, &[0]].concat(), resized([&**answer, &[0]].concat())];
            for wrong in cuts.chain(longer) {
                let answers = answers[..index].iter().chain([&wrong]).cloned().collect();
                assert!(replay(answers).is_err(), "operation {number}, answer {index}: {wrong:?}");
            }
        }
    }
}

#[test]
fn connection_strings_are_read_as_they_are_meant_st_20() {
    let read = |text: &str| text.parse::<Address>().unwrap();
    let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: 2321 };
    assert_eq!(read("/dev/tpmrm0"), Address::Device("/dev/tpmrm0".into()));
    assert_eq!(read("device:/dev/tpm0"), Address::Device("/dev/tpm0".into()));
    assert_eq!(read("swtpm:path=/a/b,c"), Address::Unix("/a/b,c".into()));
    assert_eq!(read("unix:/a/b"), Address::Unix("/a/b".into()));
    assert_eq!(read("swtpm:host=127.0.0.1,port=2321"), tcp);
    assert_eq!(read("swtpm:port=2321,host=127.0.0.1"), tcp);
    assert_eq!(read("tcp:127.0.0.1:2321"), tcp);
    assert_eq!(read("tcp:[::1]:1"), Address::Tcp { host: "::1".to_owned(), port: 1 });
    for wrong in [
        "",
        "tpm0",
        "device:",
        "unix:",
        "swtpm:",
        "swtpm:path=",
        "swtpm:host=a",
        "swtpm:port=1",
        "tcp:a",
        "tcp::1",
        "tcp:a:70000",
        "mssim:host=a,port=1",
        "swtpm:host=a,port=1,path=b",
    ] {
        let error = wrong.parse::<Address>().unwrap_err();
        assert!(matches!(error, TpmError::Address { .. }), "{wrong}: {error}");
    }
}

#[test]
fn a_selection_of_pcrs_has_one_and_knows_only_those_of_a_pc() {
    assert!(Pcrs::new(&[]).is_err());
    assert!(Pcrs::new(&[24]).is_err());
    assert_eq!(Pcrs::new(&[7, 0, 23, 7]).unwrap().indexes().collect::<Vec<_>>(), [0, 7, 23]);
}

proptest! {
    #[test]
    fn no_response_makes_an_operation_panic_at_195(
        operation in 0..OPERATIONS.len() - 5,
        bodies in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..200)), 1..6),
    ) {
        let answers = bodies.into_iter().map(|(has_sessions, body)| {
            resized([&[0x80, 1 + u8::from(has_sessions), 0, 0, 0, 0, 0, 0, 0, 0], &*body].concat())
        });
        let fake = FakeTpm::answering(answers.collect());
        let key = Wrapped::from_bytes(&[0, 1, 1, 0, 1, 1]).unwrap();
        let creation = Creation::from_bytes(&[0; 12]).unwrap();
        let kept = Kept {
            ak: portcullis_tpm::AttestationKey { wrapped: key.clone(), parent: AttestationParent::StorageRoot },
            key: CreatedKey { wrapped: key, bound_to: None, creation },
        };
        let _ = OPERATIONS[operation](&client(&fake), &kept);
    }

    #[test]
    fn what_was_kept_is_read_again_and_nothing_else_at_122(public in prop::collection::vec(any::<u8>(), 1..300), private in prop::collection::vec(any::<u8>(), 1..300)) {
        let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
        let bytes = [sized(&public), sized(&private)].concat();
        let wrapped = Wrapped::from_bytes(&bytes).unwrap();
        prop_assert_eq!(wrapped.to_bytes(), bytes.clone());
        prop_assert_eq!(wrapped.public(), sized(&public));
        for end in 0..bytes.len() {
            prop_assert!(Wrapped::from_bytes(&bytes[..end]).is_err());
        }
        prop_assert!(Wrapped::from_bytes(&[&*bytes, &[0]].concat()).is_err());
    }

    #[test]
    fn certificates_are_found_between_padding_at_111(
        lengths in prop::collection::vec(128_u16..2000, 0..8), padding in 0_usize..600, byte in prop::sample::select(vec![0_u8, 0xff]),
    ) {
        let certificate = |length: u16| {
            let header = match u8::try_from(length) {
                Ok(length) => vec![0x30, 0x81, length],
                Err(_) => [&[0x30, 0x82][..], &length.to_be_bytes()].concat(),
            };
            [header, vec![0x30; usize::from(length)]].concat()
        };
        let certificates: Vec<Vec<u8>> = lengths.into_iter().map(certificate).collect();
        let content: Vec<u8> = certificates.iter().flat_map(|der| [&**der, &vec![byte; padding]].concat()).collect();
        prop_assert_eq!(split_certificates(&content).unwrap(), certificates);
    }

    #[test]
    fn structures_of_any_bytes_are_read_or_refused_at_195(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = split_certificates(&bytes);
        let _ = Creation::from_bytes(&bytes);
        let _ = Answer::parse(&bytes, 1, true);
        if let Ok(signature) = Signature::parse(&bytes) {
            prop_assert_eq!(signature.raw(), bytes);
        }
    }
}
