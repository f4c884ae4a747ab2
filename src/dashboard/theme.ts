// The theme of Mantine; what it would write into the page as a style sheet of its own is in theme.css, because nothing inline is allowed.
import { Anchor, createTheme } from '@mantine/core';

export const theme = createTheme({
  primaryColor: 'blue',
  defaultRadius: 'md',
  respectReducedMotion: true,
  components: {
    Badge: { defaultProps: { variant: 'light', tt: 'none', radius: 'sm' } },
    SegmentedControl: { defaultProps: { size: 'xs', withItemsBorders: false } },
    Select: { defaultProps: { allowDeselect: false } },
    // It differs from the text around it by more than its colour.
    Anchor: Anchor.extend({ defaultProps: { underline: 'always' } }),
  },
});
