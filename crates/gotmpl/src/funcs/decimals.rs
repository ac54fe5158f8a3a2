//! Decimal fractions of any size. sprig computes with these, so 0.1 and 0.2 are 0.3.

use std::cmp::Ordering;

/// Places of a quotient.
const QUOTIENT_PLACES: i64 = 16;
/// Digits a number may have. The largest and the smallest float are 632 apart.
const DIGITS_MAX: i64 = 10_000;

/// A part of a whole number: nine of its digits.
const PART: u64 = 1_000_000_000;
const PART_DIGITS: usize = 9;

/// `±digits * 10^exponent`.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: Whole,
    exponent: i64,
}

impl Decimal {
    pub(super) fn of(value: f64) -> Result<Self, String> {
        if !value.is_finite() {
            return Err(format!("Cannot create a Decimal from {}", crate::format::float(value)));
        }
        let text = crate::format::scientific(value.abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
        Ok(Self {
            is_negative: value < 0.0,
            digits: Whole::of(&digits.replace('.', "")),
            exponent: exponent.parse().unwrap_or(0_i64).saturating_sub_unsigned(length(places)),
        })
    }

    /// The digits as they are with a lower exponent.
    fn at(&self, exponent: i64) -> Result<Whole, String> {
        self.digits.shifted(self.exponent.saturating_sub(exponent))
    }

    pub(super) fn add(&self, other: &Self) -> Result<Self, String> {
        let exponent = self.exponent.min(other.exponent);
        let (left, right) = (self.at(exponent)?, other.at(exponent)?);
        if self.is_negative == other.is_negative {
            return Ok(Self { is_negative: self.is_negative, digits: left.plus(&right), exponent });
        }
        Ok(match left.order(&right) {
            Ordering::Less => Self { is_negative: other.is_negative, digits: right.minus(&left), exponent },
            _ => Self { is_negative: self.is_negative, digits: left.minus(&right), exponent },
        })
    }

    pub(super) fn sub(&self, other: &Self) -> Result<Self, String> {
        self.add(&Self { is_negative: !other.is_negative, ..other.clone() })
    }

    pub(super) fn mul(&self, other: &Self) -> Result<Self, String> {
        Ok(Self {
            is_negative: self.is_negative != other.is_negative,
            digits: self.digits.times(&other.digits).checked()?,
            exponent: self.exponent.saturating_add(other.exponent),
        })
    }

    /// To so many places, and half of the last one goes up.
    pub(super) fn div(&self, other: &Self) -> Result<Self, String> {
        if other.digits.is_zero() {
            return Err("decimal division by 0".to_owned());
        }
        let more = self.exponent.saturating_sub(other.exponent).saturating_add(QUOTIENT_PLACES);
        let (left, right) = match more {
            0.. => (self.digits.shifted(more)?, other.digits.clone()),
            _ => (self.digits.clone(), other.digits.shifted(more.saturating_neg())?),
        };
        let (quotient, rest) = left.divided(&right);
        let goes_up = rest.plus(&rest).order(&right) != Ordering::Less;
        let digits = if goes_up { quotient.plus(&Whole::of("1")) } else { quotient };
        let is_negative = self.is_negative != other.is_negative;
        Ok(Self { is_negative, digits, exponent: -QUOTIENT_PLACES })
    }

    /// The float next to it; nothing is never negative.
    pub(super) fn float(&self) -> f64 {
        let sign = if self.is_negative && !self.digits.is_zero() { "-" } else { "" };
        format!("{sign}{}e{}", self.digits.text(), self.exponent).parse().unwrap_or(f64::NAN)
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A whole number: its parts, the last nine digits first, and no zeros in front.
#[derive(Clone, Debug)]
struct Whole(Vec<u64>);

impl Whole {
    fn of(digits: &str) -> Self {
        let parts = digits.as_bytes().rchunks(PART_DIGITS);
        let part = |digits: &[u8]| digits.iter().fold(0, |part, digit| part * 10 + u64::from(digit - b'0'));
        Self(parts.map(part).collect()).trimmed()
    }

    fn text(&self) -> String {
        let mut parts = self.0.iter().rev();
        let first = parts.next().copied().unwrap_or_default().to_string();
        parts.fold(first, |text, part| format!("{text}{part:09}"))
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn checked(self) -> Result<Self, String> {
        let digits = i64::try_from(self.0.len().saturating_mul(PART_DIGITS)).unwrap_or(i64::MAX);
        if digits > DIGITS_MAX {
            return Err(too_large());
        }
        Ok(self)
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn part(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or_default()
    }

    fn order(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// With so many zeros behind it.
    fn shifted(&self, zeros: i64) -> Result<Self, String> {
        if zeros > DIGITS_MAX {
            return if self.is_zero() { Ok(self.clone()) } else { Err(too_large()) };
        }
        let zeros = usize::try_from(zeros).unwrap_or_default();
        Self::of(&format!("{}{}", self.text(), "0".repeat(zeros))).checked()
    }

    fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let mut parts = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        for at in 0..=self.0.len().max(other.0.len()) {
            let sum = self.part(at) + other.part(at) + carry;
            parts.push(sum % PART);
            carry = sum / PART;
        }
        Self(parts).trimmed()
    }

    /// What is left when a number is taken away that is not larger.
    fn minus(&self, other: &Self) -> Self {
        let mut borrowed = 0;
        let mut parts = Vec::with_capacity(self.0.len());
        for at in 0..self.0.len() {
            let difference = (self.part(at) + PART).saturating_sub(other.part(at) + borrowed);
            parts.push(difference % PART);
            borrowed = u64::from(difference < PART);
        }
        Self(parts).trimmed()
    }

    fn times(&self, other: &Self) -> Self {
        let mut product = Self(Vec::new());
        for part in other.0.iter().rev() {
            product.0.insert(0, 0);
            product = product.trimmed().plus(&self.times_part(*part));
        }
        product
    }

    fn times_part(&self, factor: u64) -> Self {
        let mut carry = 0;
        let mut parts = Vec::with_capacity(self.0.len() + 1);
        for part in &self.0 {
            let product = part * factor + carry;
            parts.push(product % PART);
            carry = product / PART;
        }
        parts.push(carry);
        Self(parts).trimmed()
    }

    /// Quotient and rest; a part of the quotient is found by halving what it may be.
    fn divided(&self, divisor: &Self) -> (Self, Self) {
        let mut quotient = Vec::with_capacity(self.0.len());
        let mut rest = Self(Vec::new());
        for part in self.0.iter().rev() {
            rest.0.insert(0, *part);
            rest = rest.trimmed();
            let (mut fits, mut exceeds) = (0, PART);
            while exceeds - fits > 1 {
                let middle = fits.midpoint(exceeds);
                match divisor.times_part(middle).order(&rest) {
                    Ordering::Greater => exceeds = middle,
                    _ => fits = middle,
                }
            }
            rest = rest.minus(&divisor.times_part(fits));
            quotient.push(fits);
        }
        quotient.reverse();
        (Self(quotient).trimmed(), rest)
    }
}

fn too_large() -> String {
    "a number too large for decimal arithmetic".to_owned()
}
