//===- DrawSchedule.cpp - plans as pictures ---------------------------------===//
#include "lowering/draw/DrawSchedule.h"
#include "lowering/draw/Timeline.h"
#include "lowering/kernels/SameOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// In pixels.
constexpr int64_t kWidth = 1500, kLeft = 150, kRight = 20, kRow = 18, kGap = 12, kMapHeight = 220,
                  kFewestOfText = 60;

struct Style {
  StringLiteral name, color;
};
/// By Activity.
constexpr Style kStyles[] = {{"matmul", "#4472c4"},
                             {"exponential", "#c0504d"},
                             {"arithmetic", "#9bbb59"},
                             {"through shared memory", "#f2a33a"},
                             {"copy", "#7f7f7f"},
                             {"store", "#8064a2"},
                             {"barrier", "#000000"},
                             {"wait", "#e0e0e0"},
                             {"held until released", "#bcd3f2"}};
const Style &styleOf(Activity activity) { return kStyles[size_t(activity)]; }

std::string escape(StringRef text) {
  std::string result;
  for (char c : text)
    result += c == '<'   ? "&lt;"
              : c == '>' ? "&gt;"
              : c == '&' ? "&amp;"
              : c == '"' ? "&quot;"
                         : std::string(1, c);
  return result;
}

class Drawing {
public:
  explicit Drawing(llvm::raw_ostream &os) : os(os) {}

  void add(StringRef name, ProgramOp program) {
    Timeline timeline = simulate(program);
    AsmState state(program);
    names = &state;
    begin = timeline.begin;
    end = std::max(timeline.end, begin + 1);
    text(10, top + 16, name, "font-weight=\"bold\"");
    std::string about = timeline.cyclesPerChunk
                            ? std::to_string(timeline.cyclesPerChunk) + " cycles a chunk of " +
                                  std::to_string(program.getChunk()) + " rows in this model"
                            : "all of it; it has no chunks in a loop";
    text(kLeft, top + 34, about, "");
    top += 44;
    drawLanes(timeline.groups, "by warps");
    drawLanes(timeline.units, "by units");
    drawLanes(timeline.rings, "stages of rings");
    drawMap(timeline);
    top += 2 * kGap;
  }

  void addLegend() {
    int64_t x = 10;
    for (const Style &style : kStyles) {
      os << "<rect x=\"" << x << "\" y=\"" << top + 4 << "\" width=\"12\" height=\"12\" fill=\""
         << style.color << "\"/>\n";
      text(x + 16, top + 14, style.name, "");
      x += 40 + 7 * int64_t(style.name.size());
    }
    top += 30;
  }

  int64_t bottom() const { return top; }

private:
  void text(int64_t x, int64_t y, StringRef words, StringRef attributes) {
    os << "<text x=\"" << x << "\" y=\"" << y << "\" " << attributes << ">" << escape(words)
       << "</text>\n";
  }
  double xOf(int64_t time) const {
    int64_t shown = std::clamp(time, begin, end);
    return kLeft + double(shown - begin) * double(kWidth - kLeft - kRight) / double(end - begin);
  }

  std::string describe(Operation *op) const {
    std::string line;
    llvm::raw_string_ostream stream(line);
    op->print(stream, *names);
    StringRef first = StringRef(line).split('\n').first;
    return first.size() > 160 ? first.take_front(160).str() + "…" : first.str();
  }
  static std::string labelOf(Operation *op) {
    std::string label = op->getName().stripDialect().str();
    if (auto dot = dyn_cast<DotOp>(op)) {
      auto [first, last] = dot.getRange();
      auto [from, to] = dot.getRowRange();
      label += " " + std::to_string(to - from) + "×" + std::to_string(dot.getType().getDimSize(1)) +
               "×" + std::to_string(last - first);
    }
    return label;
  }

  void rectangle(const Span &span, double y, double height, bool isNamed) {
    if (span.end <= begin || span.begin >= end || span.end <= span.begin)
      return;
    double x = xOf(span.begin), width = std::max(xOf(span.end) - x, 0.5);
    os << llvm::format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"", x, y,
                       width, height)
       << styleOf(span.activity).color << "\" stroke=\"#ffffff\" stroke-width=\"0.3\"><title>"
       << styleOf(span.activity).name << ", " << span.end - span.begin << " cycles from "
       << span.begin - begin << ": " << escape(describe(span.op)) << "</title></rect>\n";
    if (isNamed && width > kFewestOfText)
      os << llvm::format("<text x=\"%.1f\" y=\"%.1f\" font-size=\"9\" pointer-events=\"none\">",
                         x + 2, y + height - 4)
         << escape(labelOf(span.op)) << "</text>\n";
  }

  void drawLanes(ArrayRef<Lane> lanes, StringRef title) {
    if (lanes.empty())
      return;
    text(10, top + 12, title, "font-style=\"italic\"");
    top += kRow;
    for (const Lane &lane : lanes) {
      text(10, top + 12, lane.name, "");
      os << "<rect x=\"" << kLeft << "\" y=\"" << top << "\" width=\"" << kWidth - kLeft - kRight
         << "\" height=\"" << kRow - 3 << "\" fill=\"#f7f7f7\"/>\n";
      for (const Span &span : lane.spans)
        rectangle(span, top, kRow - 3, /*isNamed=*/true);
      top += kRow;
    }
    top += kGap;
  }

  void drawMap(const Timeline &timeline) {
    if (!timeline.sharedBytes)
      return;
    text(10, top + 12, "shared memory", "font-style=\"italic\"");
    text(10, top + 28, std::to_string(timeline.sharedBytes) + " bytes,", "");
    text(10, top + 42, "byte 0 above", "");
    os << "<rect x=\"" << kLeft << "\" y=\"" << top << "\" width=\"" << kWidth - kLeft - kRight
       << "\" height=\"" << kMapHeight << "\" fill=\"#f7f7f7\"/>\n";
    for (const Residence &one : timeline.residences) {
      double scale = double(kMapHeight) / double(timeline.sharedBytes);
      rectangle(one.span, double(top) + double(one.firstByte) * scale,
                std::max(double(one.lastByte - one.firstByte) * scale, 1.0), /*isNamed=*/false);
    }
    top += kMapHeight + kGap;
  }

  llvm::raw_ostream &os;
  AsmState *names = nullptr;
  int64_t top = 10, begin = 0, end = 1;
};
} // namespace

FailureOr<std::string> ejk::drawSchedules(ModuleOp module) {
  SmallVector<std::pair<std::string, ProgramOp>> programs;
  llvm::MapVector<func::FuncOp, unsigned> numBlocks;
  module.walk([&](ProgramOp program) {
    auto function = program->getParentOfType<func::FuncOp>();
    // As its kernel is called, if no other one serves it.
    std::string name = (function.getName() + "_blocks" + Twine(numBlocks[function]++)).str();
    bool isNew = llvm::none_of(programs, [&](auto &other) {
      return computeTheSame(other.second, program, /*evenIfUnused=*/true);
    });
    if (program->hasAttr(kSharedBytesAttr) && isNew)
      programs.push_back({name, program});
  });
  if (programs.empty())
    return module.emitError(
               "has no block program whose schedule could be drawn: its scans go step by step; "
               "--schedule=chunk says why"),
           failure();
  std::string body;
  llvm::raw_string_ostream stream(body);
  Drawing drawing(stream);
  drawing.addLegend();
  for (auto &[name, program] : programs)
    drawing.add(name, program);
  std::string svg;
  llvm::raw_string_ostream(svg) << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth
                                << "\" height=\"" << drawing.bottom()
                                << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
                                << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
                                << body << "</svg>\n";
  return svg;
}
