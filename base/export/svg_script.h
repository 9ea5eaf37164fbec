// SPDX-License-Identifier: Apache-2.0
// Within svg: what makes the file look and move in a browser.
#pragma once

/** The style sheet, to stand in <style> without escaping. */
extern const char svg_style[];

/** The program, to stand in a CDATA section. */
extern const char svg_script[];
