//! Decimal numbers of arbitrary size. As in sprig, the sum of 0.1 and 0.2 is exactly 0.3.

use std::cmp::Ordering;

/// Number of decimal places of a quotient.
const QUOTIENT_PLACES: i64 = 16;
/// Maximum number of digits of a number. For comparison, the largest and the smallest float are 632 digits
/// apart.
const DIGITS_MAX: i64 = 10_000;

/// Base of a limb. A limb holds nine decimal digits.
const LIMB_BASE: u64 = 1_000_000_000;
const LIMB_DIGITS: usize = 9;

/// A decimal number: `±digits * 10^exponent`.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: BigUnsigned,
    exponent: i64,
}

impl Decimal {
    pub(super) fn from_float(value: f64) -> Result<Self, String> {
        if !value.is_finite() {
            return Err(format!("Cannot create a Decimal from {}", crate::format::float(value)));
        }
        let text = crate::format::scientific(value.abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
        Ok(Self {
            is_negative: value < 0.0,
            digits: BigUnsigned::parse(&digits.replace('.', "")),
            exponent: exponent.parse().unwrap_or(0_i64).saturating_sub_unsigned(length(places)),
        })
    }

    /// Returns the digits as an integer, scaled to a lower exponent.
    fn digits_at(&self, exponent: i64) -> Result<BigUnsigned, String> {
        self.digits.shift(self.exponent.saturating_sub(exponent))
    }

    pub(super) fn add(&self, other: &Self) -> Result<Self, String> {
        let exponent = self.exponent.min(other.exponent);
        let (left, right) = (self.digits_at(exponent)?, other.digits_at(exponent)?);
        if self.is_negative == other.is_negative {
            return Ok(Self { is_negative: self.is_negative, digits: left.add(&right), exponent });
        }
        Ok(match left.compare(&right) {
            Ordering::Less => {
                Self { is_negative: other.is_negative, digits: right.subtract(&left), exponent }
            }
            _ => Self { is_negative: self.is_negative, digits: left.subtract(&right), exponent },
        })
    }

    pub(super) fn sub(&self, other: &Self) -> Result<Self, String> {
        self.add(&Self { is_negative: !other.is_negative, ..other.clone() })
    }

    pub(super) fn mul(&self, other: &Self) -> Result<Self, String> {
        Ok(Self {
            is_negative: self.is_negative != other.is_negative,
            digits: self.digits.multiply(&other.digits).check_size()?,
            exponent: self.exponent.saturating_add(other.exponent),
        })
    }

    /// Divides by another number. Rounds half up to `QUOTIENT_PLACES` decimal places.
    pub(super) fn div(&self, other: &Self) -> Result<Self, String> {
        if other.digits.is_zero() {
            return Err("decimal division by 0".to_owned());
        }
        let more = self.exponent.saturating_sub(other.exponent).saturating_add(QUOTIENT_PLACES);
        let (left, right) = match more {
            0.. => (self.digits.shift(more)?, other.digits.clone()),
            _ => (self.digits.clone(), other.digits.shift(more.saturating_neg())?),
        };
        let (quotient, rest) = left.divide(&right);
        let goes_up = rest.add(&rest).compare(&right) != Ordering::Less;
        let digits = if goes_up { quotient.add(&BigUnsigned::parse("1")) } else { quotient };
        let is_negative = self.is_negative != other.is_negative;
        Ok(Self { is_negative, digits, exponent: -QUOTIENT_PLACES })
    }

    /// Returns the nearest float. The result is never negative zero.
    pub(super) fn float(&self) -> f64 {
        let sign = if self.is_negative && !self.digits.is_zero() { "-" } else { "" };
        format!("{sign}{}e{}", self.digits.text(), self.exponent).parse().unwrap_or(f64::NAN)
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// An unsigned integer. The limbs are in little-endian order, without leading zeros.
#[derive(Clone, Debug)]
struct BigUnsigned(Vec<u64>);

impl BigUnsigned {
    fn parse(digits: &str) -> Self {
        let parts = digits.as_bytes().rchunks(LIMB_DIGITS);
        let part = |digits: &[u8]| digits.iter().fold(0, |part, digit| part * 10 + u64::from(digit - b'0'));
        Self(parts.map(part).collect()).trim()
    }

    fn text(&self) -> String {
        let mut parts = self.0.iter().rev();
        let first = parts.next().copied().unwrap_or_default().to_string();
        parts.fold(first, |text, part| format!("{text}{part:09}"))
    }

    fn trim(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn check_size(self) -> Result<Self, String> {
        let digits = i64::try_from(self.0.len().saturating_mul(LIMB_DIGITS)).unwrap_or(i64::MAX);
        if digits > DIGITS_MAX {
            return Err(too_large());
        }
        Ok(self)
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn limb(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or_default()
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Multiplies by a power of ten with the given number of zeros.
    fn shift(&self, zeros: i64) -> Result<Self, String> {
        if zeros > DIGITS_MAX {
            return if self.is_zero() { Ok(self.clone()) } else { Err(too_large()) };
        }
        let zeros = usize::try_from(zeros).unwrap_or_default();
        Self::parse(&format!("{}{}", self.text(), "0".repeat(zeros))).check_size()
    }

    fn add(&self, other: &Self) -> Self {
        let mut carry = 0;
        let mut parts = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        for at in 0..=self.0.len().max(other.0.len()) {
            let sum = self.limb(at) + other.limb(at) + carry;
            parts.push(sum % LIMB_BASE);
            carry = sum / LIMB_BASE;
        }
        Self(parts).trim()
    }

    /// Subtracts another number, which must not be larger.
    fn subtract(&self, other: &Self) -> Self {
        let mut borrowed = 0;
        let mut parts = Vec::with_capacity(self.0.len());
        for at in 0..self.0.len() {
            let difference = (self.limb(at) + LIMB_BASE).saturating_sub(other.limb(at) + borrowed);
            parts.push(difference % LIMB_BASE);
            borrowed = u64::from(difference < LIMB_BASE);
        }
        Self(parts).trim()
    }

    fn multiply(&self, other: &Self) -> Self {
        let mut product = Self(Vec::new());
        for part in other.0.iter().rev() {
            product.0.insert(0, 0);
            product = product.trim().add(&self.multiply_limb(*part));
        }
        product
    }

    fn multiply_limb(&self, factor: u64) -> Self {
        let mut carry = 0;
        let mut parts = Vec::with_capacity(self.0.len() + 1);
        for part in &self.0 {
            let product = part * factor + carry;
            parts.push(product % LIMB_BASE);
            carry = product / LIMB_BASE;
        }
        parts.push(carry);
        Self(parts).trim()
    }

    /// Returns the quotient and the remainder. Finds each limb of the quotient by bisection.
    fn divide(&self, divisor: &Self) -> (Self, Self) {
        let mut quotient = Vec::with_capacity(self.0.len());
        let mut rest = Self(Vec::new());
        for part in self.0.iter().rev() {
            rest.0.insert(0, *part);
            rest = rest.trim();
            let (mut fits, mut exceeds) = (0, LIMB_BASE);
            while exceeds - fits > 1 {
                let middle = fits.midpoint(exceeds);
                match divisor.multiply_limb(middle).compare(&rest) {
                    Ordering::Greater => exceeds = middle,
                    _ => fits = middle,
                }
            }
            rest = rest.subtract(&divisor.multiply_limb(fits));
            quotient.push(fits);
        }
        quotient.reverse();
        (Self(quotient).trim(), rest)
    }
}

fn too_large() -> String {
    "number too large for decimal arithmetic".to_owned()
}
