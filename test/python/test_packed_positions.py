"""Packed sequences in a batch of one: which rows begin one, by the positions or by the numbers of sequences."""

import itertools
import unittest

import torch

from ejk.compat import _layers


def offsets(*positions):
    found = _layers.offsets_of_positions(torch.tensor(positions))
    return None if found is None else found.tolist()


class Positions(unittest.TestCase):
    def test_each_zero_begins_a_sequence(self):
        for lengths in ([1, 1], [3, 2], [2, 1, 3], [1, 4, 1, 1], [5, 1]):
            positions = [n for length in lengths for n in range(length)]
            with self.subTest(lengths):
                self.assertEqual(offsets(positions), [0, *itertools.accumulate(lengths)])

    def test_one_sequence_is_not_packed(self):
        for positions in ([0], [0, 1], [0, 1, 2, 3], [7], [7, 8, 9]):
            with self.subTest(positions):
                self.assertIsNone(offsets(positions))

    def test_rows_that_go_on_from_an_earlier_call_are_not_packed(self):
        # Where their sequence begins is not among them.
        for positions in ([5, 6, 7, 0, 1], [1, 0], [1, 0, 1, 0, 1], [-1, 0, 1], [3, 4, 0], [2, 2, 0, 0]):
            with self.subTest(positions):
                self.assertIsNone(offsets(positions))

    def test_what_has_no_positions_of_one_sequence(self):
        packed = torch.tensor([0, 1, 0, 1])
        for given in (None, [[0, 1, 0, 1]], packed, packed.expand(2, 4), packed.expand(3, 1, 4), packed[None, :0]):
            with self.subTest(given):
                self.assertIsNone(_layers.offsets_of_positions(given))

    def test_types(self):
        for dtype in (torch.int32, torch.int64):
            found = _layers.offsets_of_positions(torch.tensor([[0, 1, 0, 1, 2]], dtype=dtype))
            self.assertEqual((found.tolist(), found.dtype), ([0, 2, 5], torch.int64))

    def test_a_model_that_is_told_more_than_positions(self):
        def forward(self, input_ids, position_ids=None, attention_mask=None, **named):
            return named.get("cu_seq_lens_q")
        model, rows = _layers.with_offsets(forward), torch.zeros(1, 5)
        packed, later = torch.tensor([[0, 1, 0, 1, 2]]), torch.tensor([[5, 6, 7, 0, 1]])
        own = torch.nn.Module()
        self.assertEqual(model(own, rows, packed).tolist(), [0, 2, 5])
        self.assertEqual(model(own, rows, position_ids=packed).tolist(), [0, 2, 5])
        self.assertIsNone(model(own, rows, position_ids=later))
        self.assertIsNone(model(own, rows))
        self.assertIsNone(model(own, rows, packed, torch.ones(1, 5)))
        self.assertIsNone(model(own, rows, packed, seq_idx=torch.zeros(1, 5)))
        given = torch.tensor([0, 4, 5])
        self.assertIs(model(own, rows, packed, cu_seq_lens_q=given), given)

    def test_a_model_that_mixes_packed_sequences_refuses_them(self):
        def forward(self, input_ids, position_ids=None, attention_mask=None, **named):
            return "computed"
        model, own, rows = _layers.without_packing(forward, "for a reason"), torch.nn.Module(), torch.zeros(1, 5)
        packed, later = torch.tensor([[0, 1, 0, 1, 2]]), torch.tensor([[5, 6, 7, 0, 1]])
        for named in (dict(position_ids=packed), dict(cu_seqlens=torch.tensor([0, 2, 5])),
                      dict(cu_seq_lens_q=torch.tensor([0, 2, 5])), dict(seq_idx=torch.zeros(1, 5))):
            with self.subTest(list(named)), self.assertRaisesRegex(NotImplementedError, "Module .*: for a reason"):
                model(own, rows, **named)
        for named in ({}, dict(position_ids=later), dict(position_ids=packed, attention_mask=torch.ones(1, 5))):
            self.assertEqual(model(own, rows, **named), "computed")


class Numbers(unittest.TestCase):
    def test_each_other_number_begins_a_sequence(self):
        for numbers, wanted in (([0, 0, 0], [0, 3]), ([3, 3, 1, 1], [0, 2, 4]), ([0, 1, 2], [0, 1, 2, 3]),
                                ([1, 1, 0, 1], [0, 2, 3, 4]), ([4], [0, 1])):
            for dtype in (torch.int32, torch.int64):
                found = _layers.offsets(dict(seq_idx=torch.tensor([numbers], dtype=dtype)))
                with self.subTest(numbers):
                    self.assertEqual(found.tolist(), wanted)

    def test_offsets_that_are_given_are_taken(self):
        a, b = torch.tensor([0, 2]), torch.tensor([0, 1, 2])
        for named, wanted in ((dict(cu_seqlens=a, cu_seq_lens_q=b), a), (dict(cu_seq_lens_q=b), b),
                              (dict(cu_seq_lens_q=b, seq_idx=torch.zeros(1, 2)), b), ({}, None)):
            self.assertIs(_layers.offsets(named), wanted)


if __name__ == "__main__":
    unittest.main()
