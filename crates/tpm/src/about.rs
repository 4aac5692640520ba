//! What the TPM says of itself: maker, clock, PCRs; and its random numbers.

use crate::command::{self, Command};
use crate::error::TpmError;
use crate::operation::{Operation, Tpm};
use crate::pcr::{self, PcrValues, Pcrs};
use crate::wire::{Malformed, Writer};

const TPM_PROPERTIES: u32 = 6;
/// The properties that never change begin here.
const FIRST_PROPERTY: u32 = 0x100;
const MANUFACTURER: u32 = 0x105;
const VENDOR: std::ops::RangeInclusive<u32> = 0x106..=0x109;
const FIRMWARE_HIGH: u32 = 0x10b;
const FIRMWARE_LOW: u32 = 0x10c;
/// From the first property to the last one that is read here.
const PROPERTY_COUNT: u32 = 0x0d;
/// The largest digest, which is what a TPM returns at once.
const MAX_RANDOM_BYTES: u16 = 32;

/// Who made the TPM (AT-193).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The manufacturer's identifier, such as `IFX` or `INTC`. Bytes that cannot be printed are left out.
    pub manufacturer: String,
    /// The vendor's text. Bytes that cannot be printed are left out.
    pub vendor: String,
    /// The version of the firmware, as the vendor counts it.
    pub firmware: u64,
}

/// The clock of the TPM, which the machine cannot set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds that the TPM was powered since it was cleared.
    pub milliseconds: u64,
    /// How often it was reset.
    pub reset_count: u32,
    /// How often it was restarted or resumed since it was reset.
    pub restart_count: u32,
    /// Whether no larger time has been shown before.
    pub is_safe: bool,
}

/// Values of PCRs, and the counter of their changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadPcrs {
    pub(crate) values: PcrValues,
    changes: u32,
}

/// Reads PCRs. The TPM returns a few at once. Values of PCRs that changed meanwhile have an earlier counter than those
/// that are read afterwards.
pub(crate) fn read_pcrs(operation: &Operation<'_>, pcrs: Pcrs) -> Result<ReadPcrs, TpmError> {
    let mut values = PcrValues::new();
    let mut left = Some(pcrs);
    let mut first_changes = None;
    while let Some(wanted) = left {
        let read = Command::new(command::PCR_READ).parameters(pcr::write(Writer::default(), Some(wanted)));
        let (changes, read, some) = operation.run(read)?.read(|reader| {
            let answer = pcr::read_values(reader)?;
            if wanted.contains_all_of(answer.1) { Ok(answer) } else { Err(Malformed("it has other PCRs")) }
        })?;
        first_changes.get_or_insert(changes);
        values.extend(some);
        left = wanted.without(read);
    }
    values.sort_unstable_by_key(|(index, _)| *index);
    Ok(ReadPcrs { values, changes: first_changes.unwrap_or_default() })
}

impl Tpm {
    /// The values of these PCRs, in ascending order.
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn pcr_values(&self, pcrs: Pcrs) -> Result<PcrValues, TpmError> {
        Ok(read_pcrs(&self.begin()?, pcrs)?.values)
    }

    /// Who made the TPM (AT-193).
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn properties(&self) -> Result<Properties, TpmError> {
        let operation = self.begin()?;
        let parameters = Writer::default().u32(TPM_PROPERTIES).u32(FIRST_PROPERTY).u32(PROPERTY_COUNT);
        let properties =
            operation.run(Command::new(command::GET_CAPABILITY).parameters(parameters))?.read(|reader| {
                let _has_more = reader.u8()?;
                if reader.u32()? != TPM_PROPERTIES {
                    return Err(Malformed("it is another capability"));
                }
                let count = reader.count(PROPERTY_COUNT)?;
                (0..count).map(|_| Ok((reader.u32()?, reader.u32()?))).collect::<Result<Vec<_>, _>>()
            })?;
        let value =
            |wanted| properties.iter().find(|(property, _)| *property == wanted).map_or(0, |found| found.1);
        let text = |property| {
            let bytes: [u8; 4] = value(property).to_be_bytes();
            bytes.into_iter().filter(u8::is_ascii_graphic).map(char::from).collect::<String>()
        };
        Ok(Properties {
            manufacturer: text(MANUFACTURER),
            vendor: VENDOR.map(text).collect(),
            firmware: u64::from(value(FIRMWARE_HIGH)) << 32 | u64::from(value(FIRMWARE_LOW)),
        })
    }

    /// The clock of the TPM.
    ///
    /// # Errors
    /// See [`TpmError`].
    pub fn clock(&self) -> Result<Clock, TpmError> {
        self.begin()?.run(Command::new(command::READ_CLOCK))?.read(|reader| {
            let _since_start = reader.u64()?;
            Ok(Clock {
                milliseconds: reader.u64()?,
                reset_count: reader.u32()?,
                restart_count: reader.u32()?,
                is_safe: reader.u8()? == 1,
            })
        })
    }

    /// This many random bytes, at most 32.
    ///
    /// # Errors
    /// More than 32 were asked for; else see [`TpmError`].
    pub fn random(&self, count: u16) -> Result<Vec<u8>, TpmError> {
        if count > MAX_RANDOM_BYTES {
            let why = Malformed("a TPM returns at most 32 random bytes at once");
            return Err(TpmError::Argument { what: "number of random bytes", why });
        }
        let random = Command::new(command::GET_RANDOM).parameters(Writer::default().u16(count));
        self.begin()?.run(random)?.read(|reader| {
            let bytes = reader.sized()?;
            let is_all = bytes.len() == usize::from(count);
            if is_all { Ok(bytes.to_vec()) } else { Err(Malformed("it has another number of bytes")) }
        })
    }
}
