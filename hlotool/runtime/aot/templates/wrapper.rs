//! ${ABOUT}
//!
//! Put this file beside your sources (`mod ${NAME};`) and link the library: `-l static=${NAME}`.

#![allow(dead_code)]

use std::ffi::{c_char, c_void, CStr};

/// What a caller offers: `hlo_context` of the header.  All of it may be null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Context {
    pub weights: *const c_void,
    pub random: *mut u64,
    pub user: *mut c_void,
    pub functions: *const Option<unsafe extern "C" fn(*mut c_void, *const c_void, *const *mut c_void) -> i32>,
    pub poll: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    pub threads: *mut c_void,
    pub parallel_for: Option<unsafe extern "C" fn(*mut c_void, Task, *mut c_void, i64)>,
    pub parallel_for_short: Option<unsafe extern "C" fn(*mut c_void, Task, *mut c_void, i64)>,
}

pub type Task = unsafe extern "C" fn(*mut c_void, i64, i64);

impl Default for Context {
    fn default() -> Self {
        Context {
            weights: std::ptr::null(),
            random: std::ptr::null_mut(),
            user: std::ptr::null_mut(),
            functions: std::ptr::null(),
            poll: None,
            threads: std::ptr::null_mut(),
            parallel_for: None,
            parallel_for_short: None,
        }
    }
}

extern "C" {
    fn ${NAME}_message(code: i32) -> *const c_char;
    fn ${NAME}_weights_check(weights: *const c_void, bytes: usize) -> i32;
${EXTERN}
}

/// What a call gave back that is not `HLO_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    pub code: i32,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The message is a constant of the library.
        f.write_str(&unsafe { CStr::from_ptr(${NAME}_message(self.code)) }.to_string_lossy())
    }
}

impl std::error::Error for Error {}

fn checked(code: i32) -> Result<(), Error> {
    if code == 0 {
        Ok(())
    } else {
        Err(Error { code })
    }
}

/// 64 bytes, aligned as workspaces and weights have to be.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0; 64]); bytes.div_ceil(64)]
}

/// The weights of the library, read and checked.
pub struct Weights {
    lines: Vec<Line>,
}

impl Weights {
    pub fn new(file: &[u8]) -> Result<Self, Error> {
        let mut lines = lines(file.len());
        unsafe {
            std::ptr::copy_nonoverlapping(file.as_ptr(), lines.as_mut_ptr().cast(), file.len());
            checked(${NAME}_weights_check(lines.as_ptr().cast(), file.len()))?;
        }
        Ok(Weights { lines })
    }
}
${ENTRIES}
